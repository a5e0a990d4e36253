import com.zaxxer.hikari.HikariDataSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.support.JdbcUtils;

/** What Spring's JdbcTemplate does. Arguments: URL, user, password, database to read, database to write. */
public final class Spring {
  private Spring() {}

  public static void main(String[] given) throws Exception {
    String customer = given[3] + ".customer";
    String made = given[4] + ".sprung";
    Answers answers = new Answers();
    try (HikariDataSource pool = Pool.of(given)) {
      JdbcTemplate jdbc = new JdbcTemplate(pool);
      jdbc.setFetchSize(100);
      NamedParameterJdbcTemplate named = new NamedParameterJdbcTemplate(jdbc);
      answers.step("a list", () -> jdbc.queryForList("SELECT id, name, email FROM " + customer + " ORDER BY id"));
      answers.step("a value", () -> jdbc.queryForObject("SELECT count(*) FROM " + customer, Long.class));
      answers.step(
          "with arguments",
          () ->
              jdbc.query(
                  "SELECT name FROM " + customer + " WHERE region = ? AND id > ? ORDER BY id",
                  (row, number) -> number + " " + row.getString("name"),
                  "EMEA",
                  1));
      answers.step(
          "with names",
          () ->
              named.queryForList(
                  "SELECT id FROM " + customer + " WHERE region IN (:regions) ORDER BY id",
                  Map.of("regions", List.of("EMEA", "APAC"))));
      answers.step(
          "many rows",
          () -> {
            long[] sum = new long[2];
            jdbc.query(
                "SELECT id FROM " + given[3] + ".numbers",
                row -> {
                  sum[0]++;
                  sum[1] += row.getLong(1);
                });
            return List.of(sum[0], sum[1]);
          });
      answers.step("no row", () -> jdbc.queryForObject("SELECT id FROM " + customer + " WHERE id < 0", Long.class));
      answers.step(
          "made",
          () -> {
            jdbc.execute("CREATE TABLE " + made + " (id INT, word STRING)");
            return "made";
          });
      answers.step("one row", () -> jdbc.update("INSERT INTO " + made + " VALUES (?, ?)", 1, "it's"));
      answers.step(
          "a batch",
          () -> {
            int[] counts =
                jdbc.batchUpdate(
                    "INSERT INTO " + made + " VALUES (?, ?)",
                    List.of(new Object[] {2, "b"}, new Object[] {3, "c"}));
            List<Object> told = new ArrayList<>();
            for (int one : counts) {
              told.add(one);
            }
            return told;
          });
      answers.step("what is there", () -> jdbc.queryForList("SELECT * FROM " + made + " ORDER BY id"));
      answers.step(
          "dropped",
          () -> {
            jdbc.execute("DROP TABLE " + made);
            return "dropped";
          });
      answers.step("no such table", () -> jdbc.queryForList("SELECT * FROM " + made));
      answers.step("no SQL", () -> jdbc.queryForList("SELEKT 1"));
      answers.step("a value that fails", () -> jdbc.queryForList("SELECT 1 / (id - id) AS x FROM " + customer));
      answers.step(
          "metadata", () -> JdbcUtils.extractDatabaseMetaData(pool, meta -> meta.getDatabaseProductName()));
    }
    answers.print();
  }
}
