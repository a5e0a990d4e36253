import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

/**
 * Iceberg's own client, without an engine: asks a catalog for what the lines of its input say, and prints what
 * came of each. A line is "user password action namespace table", by blanks.
 */
public final class IcebergClient {
  public static void main(String[] given) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] told = line.split("\t");
      String answer;
      try (RESTCatalog catalog = open(given[0], given[1], told[0], told[1])) {
        answer = "answer\t" + act(catalog, told[2], told);
      } catch (Exception error) {
        answer = "error\t" + error.getClass().getSimpleName() + ": " + error.getMessage();
      }
      System.out.println(answer.replace('\n', ' '));
    }
  }

  private static RESTCatalog open(String url, String warehouse, String user, String password) {
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize(
        "lake",
        Map.of(
            "uri", url,
            "warehouse", warehouse,
            "rest.auth.type", "basic",
            "rest.auth.basic.username", user,
            "rest.auth.basic.password", password));
    return catalog;
  }

  private static String act(RESTCatalog catalog, String action, String[] told) throws Exception {
    switch (action) {
      case "namespaces":
        return sorted(catalog.listNamespaces());
      case "tables":
        return sorted(catalog.listTables(Namespace.of(told[3])));
      case "exists":
        return String.valueOf(catalog.tableExists(name(told)));
      case "rows":
        return rows(catalog.loadTable(name(told)), null);
      case "rows at first":
        Table table = catalog.loadTable(name(told));
        return rows(table, table.history().get(0).snapshotId());
      case "make":
        Schema schema = new Schema(Types.NestedField.required(1, "id", Types.IntegerType.get()));
        return catalog.createTable(name(told), schema).name();
      case "make staged":
        Schema staged = new Schema(Types.NestedField.required(1, "id", Types.IntegerType.get()));
        catalog.newCreateTableTransaction(name(told), staged).commitTransaction();
        return String.valueOf(catalog.loadTable(name(told)).properties());
      case "drop":
        return String.valueOf(catalog.dropTable(name(told)));
      default:
        throw new IllegalArgumentException(action);
    }
  }

  private static TableIdentifier name(String[] told) {
    return TableIdentifier.of(told[3], told[4]);
  }

  private static String rows(Table table, Long snapshot) throws Exception {
    IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table);
    List<String> found = new ArrayList<>();
    try (CloseableIterable<Record> records = (snapshot == null ? scan : scan.useSnapshot(snapshot)).build()) {
      records.forEach(one -> found.add(one.toString()));
    }
    return sorted(found);
  }

  private static String sorted(List<?> names) {
    List<String> found = new ArrayList<>();
    names.forEach(one -> found.add(one.toString()));
    Collections.sort(found);
    return String.join("; ", found);
  }
}
