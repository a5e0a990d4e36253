import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Notes what came of each step, and prints all of it as a JSON object. */
final class Answers {
  /** One step. */
  interface Work {
    Object run() throws Exception;
  }

  private final Map<String, Object> answers = new LinkedHashMap<>();

  /** Runs a step; an exception is an answer like another, with what programs branch on. */
  void step(String name, Work work) {
    Object answer;
    try {
      answer = work.run();
    } catch (Exception error) {
      answer = told(error);
    }
    if (answers.put(name, answer == null ? "null" : answer) != null) {
      throw new IllegalArgumentException("twice: " + name);
    }
  }

  void print() {
    StringBuilder out = new StringBuilder();
    write(answers, out);
    System.out.println(out);
  }

  static Map<String, Object> told(Throwable error) {
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("class", error.getClass().getName());
    told.put("message", String.valueOf(error.getMessage()));
    if (error instanceof SQLException sql) {
      told.put("state", String.valueOf(sql.getSQLState()));
      told.put("code", sql.getErrorCode());
    }
    if (error.getCause() != null && error.getCause() != error) {
      told.put("cause", told(error.getCause()));
    }
    return told;
  }

  /** Returns a result as the driver describes it and gives it. */
  static Map<String, Object> all(ResultSet result) throws SQLException {
    ResultSetMetaData meta = result.getMetaData();
    List<Object> columns = new ArrayList<>();
    for (int i = 1; i <= meta.getColumnCount(); i++) {
      columns.add(
          List.of(
              meta.getColumnName(i),
              meta.getColumnTypeName(i),
              meta.getColumnType(i),
              meta.getPrecision(i),
              meta.getScale(i),
              meta.getColumnDisplaySize(i),
              meta.isNullable(i)));
    }
    List<Object> rows = new ArrayList<>();
    while (result.next()) {
      List<Object> row = new ArrayList<>();
      for (int i = 1; i <= meta.getColumnCount(); i++) {
        row.add(value(result.getObject(i)));
      }
      rows.add(row);
    }
    return Map.of("columns", columns, "rows", rows);
  }

  static Object value(Object value) {
    if (value == null) {
      return "null";
    }
    String text = value instanceof byte[] bytes ? java.util.HexFormat.of().formatHex(bytes) : value.toString();
    return value.getClass().getSimpleName() + " " + text;
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof Map<?, ?> map) {
      String before = "{";
      out.append(map.isEmpty() ? "{" : "");
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(before);
        write(String.valueOf(entry.getKey()), out);
        out.append(":");
        write(entry.getValue(), out);
        before = ",";
      }
      out.append("}");
    } else if (value instanceof Iterable<?> list) {
      out.append("[");
      String before = "";
      for (Object one : list) {
        out.append(before);
        write(one, out);
        before = ",";
      }
      out.append("]");
    } else if (value instanceof Number || value instanceof Boolean) {
      out.append(value);
    } else {
      out.append('"');
      for (char c : String.valueOf(value).toCharArray()) {
        if (c == '"' || c == '\\') {
          out.append('\\').append(c);
        } else if (c < ' ' || c > '~') {
          out.append(String.format("\\u%04x", (int) c));
        } else {
          out.append(c);
        }
      }
      out.append('"');
    }
  }
}
