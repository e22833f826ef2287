import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Asks with Pinot's JDBC driver. Arguments: controller (host:port), and an Authorization header where there is a log-in. */
public class PinotJdbc {
    public static void main(String[] args) throws Exception {
        Class.forName("org.apache.pinot.client.PinotDriver");
        Properties properties = new Properties();
        if (args.length > 1) {
            properties.setProperty("headers.Authorization", args[1]);
        }
        try (Connection connection = DriverManager.getConnection("jdbc:pinot://" + args[0], properties)) {
            try (ResultSet tables = connection.getMetaData().getTables(null, null, null, null)) {
                while (tables.next()) {
                    System.out.println("table " + tables.getString("TABLE_NAME"));
                }
            }
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("SELECT city, n, ts FROM trips ORDER BY n LIMIT 10")) {
                ResultSetMetaData meta = rows.getMetaData();
                for (int i = 1; i <= meta.getColumnCount(); i++) {
                    System.out.println("column " + meta.getColumnName(i) + " " + meta.getColumnTypeName(i));
                }
                while (rows.next()) {
                    System.out.println("row " + rows.getString("city") + " " + rows.getLong("n") + " " + rows.getTimestamp("ts").getTime());
                }
            }
            String counted = "SELECT COUNT(*), SUM(n) FROM trips WHERE city = ? AND n > ?";
            try (PreparedStatement statement = connection.prepareStatement(counted)) {
                statement.setString(1, "city1");
                statement.setInt(2, 0);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    System.out.println("counted " + rows.getLong(1) + " " + rows.getDouble(2));
                }
            }
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery("SELECT nope FROM trips");
                System.out.println("no error");
            } catch (SQLException error) {
                System.out.println("refused " + String.valueOf(error.getMessage()).replace('\n', ' '));
            }
        }
    }
}
