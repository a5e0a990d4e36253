package sluice;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The parser process: Spark's SQL parser behind one socket, which is its standard input and output.
 *
 * A frame is a four-byte length and that many bytes of JSON; of a reading, two lines of it, the second its
 * tree. The first frame sent says who is there; then every request `{id, op, …}` has one answer `{id, kind, …}`,
 * in any order. When the other end closes, also by being killed, the process ends.
 */
public final class ReaderMain {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Statements that load the parser's classes before the first one of a client is timed. */
    private static final String[] WARM_UP = {
        "SELECT a.x, count(*), CASE WHEN b.y > 1.5 THEN 'q' ELSE NULL END FROM db.t AS a JOIN u b ON a.x = b.x"
            + " WHERE a.z IN (SELECT z FROM v) AND a.d BETWEEN DATE '2020-01-01' AND current_date()"
            + " GROUP BY a.x HAVING count(*) > 1 ORDER BY 1 DESC LIMIT 10",
        "WITH c AS (SELECT * FROM t VERSION AS OF 1) SELECT transform(xs, x -> x + 1), row_number() OVER"
            + " (PARTITION BY k ORDER BY o) FROM c LATERAL VIEW explode(xs) e AS f",
        "INSERT INTO t SELECT * FROM u UNION ALL TABLE v",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET t.b = u.b",
        "CREATE TABLE t USING parquet OPTIONS (a 'b') PARTITIONED BY (c) LOCATION '/x' AS SELECT 1 AS c",
        "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", "DESCRIBE TABLE t", "SHOW TABLES", "SET a = b",
    };

    private final DataInputStream in;
    private final DataOutputStream out;
    private final LinkedBlockingQueue waiting = new LinkedBlockingQueue();

    private ReaderMain(DataInputStream in, DataOutputStream out) {
        this.in = in;
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        DataInputStream in =
            new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16));
        DataOutputStream out =
            new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
        // Whatever Spark prints must not end up between two frames.
        System.setOut(System.err);
        int threads = Integer.parseInt(arguments[0]);
        Extensions.load(java.util.Arrays.asList(arguments).subList(1, arguments.length));
        ReaderMain reader = new ReaderMain(in, out);
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(null, new Worker(reader), "reader-" + i, Limits.STACK_BYTES);
            thread.setDaemon(true);
            thread.start();
        }
        reader.serve();
    }

    private void serve() throws Exception {
        try {
            while (true) {
                int length = in.readInt();
                if (length < 0 || length > Limits.FRAME_BYTES) {
                    break;
                }
                byte[] frame = new byte[length];
                in.readFully(frame);
                waiting.put(frame);
            }
        } catch (EOFException closed) {
            Runtime.getRuntime().halt(0);
        }
        Runtime.getRuntime().halt(2);
    }

    private void answer(Object id, Map answer) throws Exception {
        answer.put("id", id);
        byte[] frame;
        try {
            frame = encoded(answer);
        } catch (CharacterCodingException half) {
            // Delta's parser counts in other units than it cuts in, and can cut a character in two.
            Map told = new LinkedHashMap();
            told.put("id", id);
            told.put("kind", "parser_failed");
            told.put("message", "the statement holds half of a character, or a parser cut one in two");
            frame = encoded(told);
        }
        send(frame);
    }

    /** An answer as JSON, and behind it on a line of its own its tree, which few look at. */
    private static byte[] encoded(Map answer) throws Exception {
        Object tree = answer.remove("tree");
        String told = JSON.writeValueAsString(answer);
        CharBuffer text = CharBuffer.wrap(tree == null ? told : told + "\n" + tree);
        ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(text);
        byte[] frame = new byte[bytes.remaining()];
        bytes.get(frame);
        return frame;
    }

    private synchronized void send(byte[] frame) throws Exception {
        out.writeInt(frame.length);
        out.write(frame);
        out.flush();
    }

    /** Settings that shape what the parser answers; all others have Spark's defaults. */
    private static void settle() {
        SQLConf conf = SQLConf.get();
        conf.setConfString("spark.sql.variable.substitute", "false");
        // VALUES keeps its expressions in the plan instead of being computed here, by the parser.
        conf.setConfString("spark.sql.parser.eagerEvalOfUnresolvedInlineTable", "false");
        // Where Spark has them off, it says so itself.
        conf.setConfString("spark.sql.scripting.cursorEnabled", "true");
        conf.setConfString("spark.sql.scripting.continueHandlerEnabled", "true");
        // ANTLR's prediction cache otherwise grows with every new shape of statement, without end.
        conf.setConfString("spark.sql.parser.manageParserCaches", "true");
        conf.setConfString("spark.sql.parser.parserDfaCacheFlushThreshold", String.valueOf(Limits.PREDICTION_STATES));
    }

    /** One thread that answers requests, with a stack that deep statements fit on. */
    private static final class Worker implements Runnable {
        private static boolean welcomed;
        private final ReaderMain reader;

        Worker(ReaderMain reader) {
            this.reader = reader;
        }

        public void run() {
            try {
                settle();
                welcome(reader);
                while (true) {
                    byte[] frame = (byte[]) reader.waiting.take();
                    Map request = (Map) JSON.readValue(frame, Map.class);
                    Map answer = answer(request);
                    ParserCaches.keepBounds();
                    reader.answer(request.get("id"), answer);
                }
            } catch (Throwable broken) {
                // A process that cannot answer must not look alive: the client starts another one.
                broken.printStackTrace();
                Runtime.getRuntime().halt(3);
            }
        }

        private static synchronized void welcome(ReaderMain reader) throws Exception {
            if (welcomed) {
                return;
            }
            welcomed = true;
            if (Extensions.any()) {
                // Delta makes up the columns of its history by Scala's reflection, which takes seconds once.
                ParserChain.ofThread().statement("DESCRIBE HISTORY t");
            }
            for (int i = 0; i < WARM_UP.length; i++) {
                Map request = new LinkedHashMap();
                request.put("op", "prove");
                request.put("original", WARM_UP[i]);
                request.put("rewritten", WARM_UP[i]);
                request.put("splices", new java.util.ArrayList());
                request.put("allowed", new java.util.ArrayList());
                answer(request);
                request.put("op", "read");
                request.put("text", WARM_UP[i]);
                answer(request);
            }
            reader.send(encoded(Answers.hello()));
        }

        private static Map answer(Map request) {
            Map told = new LinkedHashMap();
            try {
                Map found = Answers.answer((String) request.get("op"), request);
                told.put("kind", "answer");
                told.putAll(found);
            } catch (StackOverflowError deep) {
                told.put("kind", "too_deep");
            } catch (ParserChain.TwoReadings differ) {
                told.put("kind", "two_readings");
                told.put("message", differ.getMessage());
            } catch (ParserChain.Failed failed) {
                told.put("kind", "parser_failed");
                told.put("message", failed.getMessage());
            } catch (AssertionError failed) {
                // Spark asserts about texts, too: TABLESAMPLE (:n PERCENT) must not end the process.
                reject(told, failed);
            } catch (Error broken) {
                // Out of memory, or a class that failed to load and never will: only a new process helps.
                throw broken;
            } catch (Throwable rejected) {
                reject(told, rejected);
            }
            return told;
        }

        private static void reject(Map told, Throwable rejected) {
            told.put("kind", "rejected");
            told.put("message", message(rejected));
            told.put("parameters", parameters(rejected));
            told.put("exceptions", exceptions(rejected));
            told.put("error_class", errorClass(rejected));
            told.put("sqlstate", sqlState(rejected));
        }

        private static String message(Throwable rejected) {
            return rejected.getMessage() == null ? "the parser failed on this statement" : rejected.getMessage();
        }

        private static Map parameters(Throwable rejected) {
            Map told = new LinkedHashMap();
            if (rejected instanceof SparkThrowable) {
                told.putAll(((SparkThrowable) rejected).getMessageParameters());
            }
            return told;
        }

        /** The exception's class and those above it: Spark's parser also throws some that are not its own. */
        private static List exceptions(Throwable rejected) {
            List names = new ArrayList();
            for (Class one = rejected.getClass(); one != Object.class; one = one.getSuperclass()) {
                names.add(one.getName());
            }
            return names;
        }

        private static String errorClass(Throwable rejected) {
            String name = rejected instanceof SparkThrowable ? ((SparkThrowable) rejected).getErrorClass() : null;
            return name == null ? "" : name;
        }

        private static String sqlState(Throwable rejected) {
            String state = rejected instanceof SparkThrowable ? ((SparkThrowable) rejected).getSqlState() : null;
            return state == null ? "XX000" : state;
        }
    }
}
