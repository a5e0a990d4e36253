package slow;

import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.MetaStorePreEventListener;
import org.apache.hadoop.hive.metastore.events.PreEventContext;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Places at which Spark is as slow as a test wants: a gate is a file in the directory `slow.gates`, and who comes to
 * it waits until it is gone, or as many milliseconds old as it says. Nothing wakes who waits, as with an answer of
 * another machine. Janino compiles it: no lambdas, no generics.
 */
public class Slow {
    static void pass(String gate) {
        File file = new File(System.getProperty("slow.gates"), gate);
        if (!file.exists()) {
            return;
        }
        note(gate);
        boolean interrupted = false;
        while (file.exists() && System.currentTimeMillis() - file.lastModified() < patience(file)) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Whether this is the gateway, which asks what a table is. */
    static boolean isLookup() {
        String doing = SparkContext.getOrCreate().getLocalProperty("spark.job.description");
        return doing != null && doing.startsWith("DESCRIBE TABLE EXTENDED");
    }

    /** Say who waits: a line for each, where tests can read it and Spark's user may write. */
    static synchronized void note(String gate) {
        try {
            FileWriter log = new FileWriter(new File(System.getProperty("java.io.tmpdir"), "waited"), true);
            log.write(gate + "\n");
            log.close();
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }

    static long patience(File file) {
        try {
            String text = new String(Files.readAllBytes(file.toPath())).trim();
            return text.isEmpty() ? Long.MAX_VALUE : Long.parseLong(text);
        } catch (IOException e) {
            return 0;
        }
    }

    /** Hive's metastore, which tells of a table that is read; its name is the gate. */
    public static class Metastore extends MetaStorePreEventListener {
        public Metastore(Configuration conf) {
            super(conf);
        }

        public void onEvent(PreEventContext event) {
            pass("metastore");
        }
    }

    /**
     * A catalog whose tables are slow in analysis, planning or before the first row, by how their names begin; the
     * name is the gate. What a gateway looks up by itself has a gate of its own.
     */
    public static class Catalog implements TableCatalog, SupportsNamespaces {
        private String name;

        public void initialize(String name, CaseInsensitiveStringMap options) {
            this.name = name;
        }

        public String name() {
            return name;
        }

        public Table loadTable(Identifier identifier) throws NoSuchTableException {
            String table = identifier.name();
            if (!table.matches("(analysis|planning|first_row).*")) {
                throw new NoSuchTableException(identifier);
            }
            if (isLookup()) {
                pass("lookup");
            } else if (table.startsWith("analysis")) {
                pass(table);
            }
            return new Rows(table);
        }

        public Identifier[] listTables(String[] namespace) {
            pass("listing");
            return new Identifier[] {new Name(namespace, "analysis"), new Name(namespace, "planning")};
        }

        public String[][] listNamespaces() {
            return new String[][] {{"places"}};
        }

        public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
            return namespace.length == 0 ? listNamespaces() : new String[0][];
        }

        public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
            if (namespace.length != 1 || !namespace[0].equals("places")) {
                throw new NoSuchNamespaceException(namespace);
            }
            return Collections.EMPTY_MAP;
        }

        public Table alterTable(Identifier identifier, TableChange[] changes) {
            throw new UnsupportedOperationException("ALTER TABLE");
        }

        public boolean dropTable(Identifier identifier) {
            throw new UnsupportedOperationException("DROP TABLE");
        }

        public void renameTable(Identifier from, Identifier to) {
            throw new UnsupportedOperationException("RENAME TABLE");
        }

        public void createNamespace(String[] namespace, Map metadata) {
            throw new UnsupportedOperationException("CREATE NAMESPACE");
        }

        public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
            throw new UnsupportedOperationException("ALTER NAMESPACE");
        }

        public boolean dropNamespace(String[] namespace, boolean cascade) {
            throw new UnsupportedOperationException("DROP NAMESPACE");
        }
    }

    public static class Name implements Identifier {
        private final String[] namespace;
        private final String name;

        Name(String[] namespace, String name) {
            this.namespace = namespace;
            this.name = name;
        }

        public String[] namespace() {
            return namespace;
        }

        public String name() {
            return name;
        }
    }

    /** Three rows. */
    public static class Rows implements Table, SupportsRead, ScanBuilder, Scan, Batch {
        private final String table;

        Rows(String table) {
            this.table = table;
        }

        public String name() {
            return table;
        }

        public StructType schema() {
            return new StructType().add("id", DataTypes.LongType).add("name", DataTypes.StringType)
                .add("price", DataTypes.createDecimalType(7, 2));
        }

        public Set capabilities() {
            return EnumSet.of(TableCapability.BATCH_READ);
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return this;
        }

        public Scan build() {
            if (table.startsWith("planning") && !isLookup()) {
                pass(table);
            }
            return this;
        }

        public StructType readSchema() {
            return schema();
        }

        public Batch toBatch() {
            return this;
        }

        public InputPartition[] planInputPartitions() {
            return new InputPartition[] {new Part()};
        }

        public PartitionReaderFactory createReaderFactory() {
            return new Factory(table);
        }
    }

    public static class Part implements InputPartition {
    }

    public static class Factory implements PartitionReaderFactory, Serializable {
        private final String table;

        Factory(String table) {
            this.table = table;
        }

        public PartitionReader createReader(InputPartition partition) {
            return new Reader(table);
        }
    }

    public static class Reader implements PartitionReader {
        private final String table;
        private int row = 0;

        Reader(String table) {
            this.table = table;
        }

        public boolean next() {
            if (row == 0 && table.startsWith("first_row")) {
                pass(table);
            }
            row++;
            return row <= 3;
        }

        public Object get() {
            Object price = org.apache.spark.sql.types.Decimal.apply(new java.math.BigDecimal("1.50"), 7, 2);
            Object[] values = new Object[] {new Long(row), UTF8String.fromString("n" + row), price};
            return new GenericInternalRow(values);
        }

        public void close() {
        }
    }
}
