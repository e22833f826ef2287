import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.pinot.common.config.GrpcConfig;
import org.apache.pinot.common.datatable.DataTable;
import org.apache.pinot.common.datatable.DataTableFactory;
import org.apache.pinot.common.proto.Server;
import org.apache.pinot.common.utils.DataSchema;
import org.apache.pinot.common.utils.grpc.GrpcQueryClient;
import org.roaringbitmap.RoaringBitmap;

/** Asks a server as Trino's connector does, with the client and the decoder that it has of Pinot, and prints what comes. */
public class PinotGrpc {
  public static void main(String[] arguments) throws Exception {
    GrpcConfig config = new GrpcConfig(Map.of("usePlainText", "true"));
    GrpcQueryClient client = new GrpcQueryClient("localhost", Integer.parseInt(arguments[0]), config);
    String segments = arguments[1];
    for (int i = 2; i < arguments.length; i += 2) {
      System.out.println("asked " + (i - 2) / 2);
      ask(client, arguments[i], arguments[i + 1], List.of(segments.split(",")));
    }
    client.close();
  }

  private static void ask(GrpcQueryClient client, String streaming, String sql, List<String> segments) throws Exception {
    Server.ServerRequest request = Server.ServerRequest.newBuilder()
        .putMetadata("requestId", "0").putMetadata("brokerId", "unknown").putMetadata("enableTrace", "false")
        .putMetadata("enableStreaming", streaming).putMetadata("payloadType", "sql")
        .setSql(sql).addAllSegments(segments).build();
    try {
      for (Iterator<Server.ServerResponse> found = client.submit(request); found.hasNext(); ) {
        Server.ServerResponse response = found.next();
        print(response.getMetadataMap().get("responseType"),
            DataTableFactory.getDataTable(response.getPayload().asReadOnlyByteBuffer()));
      }
    } catch (StatusRuntimeException error) {
      System.out.println("refused " + error.getMessage());
    }
  }

  private static void print(String kind, DataTable table) {
    System.out.println(kind + " version " + table.getVersion() + " rows " + table.getNumberOfRows() + " scanned "
        + table.getMetadata().get("numDocsScanned") + " exceptions " + table.getExceptions());
    DataSchema schema = table.getDataSchema();
    for (int row = 0; row < table.getNumberOfRows(); row++) {
      StringBuilder line = new StringBuilder("row");
      for (int column = 0; column < schema.size(); column++) {
        RoaringBitmap nulls = table.getNullRowIds(column);
        line.append('|').append(nulls != null && nulls.contains(row) ? "null" : value(table, schema, row, column));
      }
      System.out.println(line);
    }
    if (schema != null) {
      System.out.println("schema " + schema);
    }
  }

  private static String value(DataTable table, DataSchema schema, int row, int column) {
    switch (schema.getColumnDataType(column).getStoredType()) {
      case INT: return String.valueOf(table.getInt(row, column));
      case LONG: return String.valueOf(table.getLong(row, column));
      case FLOAT: return String.valueOf(table.getFloat(row, column));
      case DOUBLE: return String.valueOf(table.getDouble(row, column));
      case BIG_DECIMAL: return table.getBigDecimal(row, column).toPlainString();
      case STRING: return table.getString(row, column);
      case BYTES: return table.getBytes(row, column).toHexString();
      case INT_ARRAY: return java.util.Arrays.toString(table.getIntArray(row, column));
      case LONG_ARRAY: return java.util.Arrays.toString(table.getLongArray(row, column));
      case FLOAT_ARRAY: return java.util.Arrays.toString(table.getFloatArray(row, column));
      case DOUBLE_ARRAY: return java.util.Arrays.toString(table.getDoubleArray(row, column));
      case STRING_ARRAY: return java.util.Arrays.toString(table.getStringArray(row, column));
      default: throw new IllegalStateException(schema.getColumnDataType(column).name());
    }
  }
}
