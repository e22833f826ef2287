import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

/** Ask a broker with Arrow's JDBC driver for Flight SQL: java FlightJdbc.java URL; prints a line for each answer. */
public class FlightJdbc {
    public static void main(String[] arguments) throws SQLException {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData about = connection.getMetaData();
            System.out.println(about.getDatabaseProductName() + " read-only=" + about.isReadOnly());
            try (ResultSet tables = about.getTables(null, null, "tr%", null)) {
                while (tables.next()) {
                    System.out.println("table " + tables.getString("TABLE_SCHEM") + "." + tables.getString("TABLE_NAME"));
                }
            }
            try (ResultSet columns = about.getColumns(null, null, "trips", null)) {
                while (columns.next()) {
                    System.out.println("column " + columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME"));
                }
            }
            try (Statement statement = connection.createStatement()) {
                print(statement.executeQuery("SELECT city, SUM(n) AS total, MAX(ts) FROM trips GROUP BY city ORDER BY city"));
                print(statement.executeQuery("SELECT COUNT(*) FROM trips a JOIN trips b ON a.n = b.n"));
                try {
                    statement.executeQuery("SELECT nope FROM trips");
                } catch (SQLException refused) {
                    System.out.println("refused " + refused.getMessage());
                }
            }
            try (PreparedStatement prepared = connection.prepareStatement("SELECT n FROM trips WHERE city = ? ORDER BY n")) {
                prepared.setString(1, "city1");
                print(prepared.executeQuery());
            }
        }
    }

    private static void print(ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        while (rows.next()) {
            StringBuilder line = new StringBuilder("row");
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                line.append(' ').append(rows.getObject(i));
            }
            System.out.println(line);
        }
    }
}
