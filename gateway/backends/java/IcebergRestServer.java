import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Iceberg's own REST servlet, bound to 127.0.0.1: the server that comes with it listens on all addresses.
 * Argument: the warehouse. Prints its port once it listens.
 */
public final class IcebergRestServer {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<String, String>();
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("uri", "jdbc:sqlite::memory:");
    properties.put("jdbc.schema-version", "V1");
    properties.put("clients", "1"); // each connection would have a memory of its own
    properties.put("warehouse", arguments[0]);
    Catalog catalog = CatalogUtil.buildIcebergCatalog("served", properties, new Configuration());

    ServletContextHandler handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
    server.setHandler(handler);
    server.start();
    System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
    System.out.flush();
    server.join();
  }
}
