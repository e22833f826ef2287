// Asks with Pinot's Go client. Arguments: controller URL, broker (host:port).
package main

import (
	"fmt"
	"os"

	"github.com/startreedata/pinot-client-go/pinot"
)

func main() {
	byController, err := pinot.NewFromController(os.Args[1])
	ask("controller", byController, err, "SELECT city, SUM(n) AS total FROM trips GROUP BY city ORDER BY city LIMIT 10")
	byBroker, err := pinot.NewFromBrokerList([]string{os.Args[2]})
	ask("broker", byBroker, err, "SELECT COUNT(*), MAX(n) FROM trips")
	ask("mistake", byBroker, err, "SELECT nope FROM trips")
}

func ask(how string, connection *pinot.Connection, err error, sql string) {
	if err != nil {
		fmt.Println(how, "not connected:", err)
		return
	}
	answer, err := connection.ExecuteSQL("trips", sql)
	if err != nil {
		fmt.Println(how, "failed:", err)
		return
	}
	for _, exception := range answer.Exceptions {
		fmt.Println(how, "exception", exception.ErrorCode, exception.Message)
	}
	if answer.ResultTable == nil {
		return
	}
	fmt.Println(how, answer.ResultTable.DataSchema.ColumnNames, answer.ResultTable.DataSchema.ColumnDataTypes)
	for row := 0; row < answer.ResultTable.GetRowCount(); row++ {
		for column := 0; column < answer.ResultTable.GetColumnCount(); column++ {
			fmt.Print(" ", answer.ResultTable.Get(row, column))
		}
		fmt.Println()
	}
}
