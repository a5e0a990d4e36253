package sluice;

import java.lang.reflect.Field;
import java.net.URL;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry$;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.SQLConf$;

/** The classes of `spark.sql.extensions`, applied in their order, without the session that Spark has for them. */
final class Extensions {
    /** Iceberg's rule that makes its own commands of those on views; it looks for their catalogs. */
    private static final String VIEWS_OF_ICEBERG = "org.apache.spark.sql.catalyst.analysis.RewriteViewCommands";

    private static final List classes = new ArrayList();
    private static final Set jars = new HashSet();
    /** Class → whether it came in one of the jars. */
    private static final ConcurrentHashMap BROUGHT = new ConcurrentHashMap();
    private static final List functions = new ArrayList();
    private static final List tableFunctions = new ArrayList();
    private static SparkSessionExtensions made;

    private Extensions() {}

    /** Load and apply these classes, before the first text. */
    static void load(List names) throws Exception {
        if (names.isEmpty()) {
            return;
        }
        made = new SparkSessionExtensions();
        for (int i = 0; i < names.size(); i++) {
            Class one = found((String) names.get(i));
            ((scala.Function1) one.getDeclaredConstructor(new Class[0]).newInstance(new Object[0])).apply(made);
            classes.add(one.getName());
            jars.add(jarOf(one));
        }
        functions.addAll(injected("injectedFunctions", FunctionRegistry$.MODULE$.builtin().listFunction()));
        tableFunctions.addAll(
            injected("injectedTableFunctions", TableFunctionRegistry$.MODULE$.builtin().listFunction()));
        activateSession();
    }

    static boolean any() {
        return made != null;
    }

    static List classes() {
        return classes;
    }

    /** Names of the functions that the extensions register, lower case. */
    static List functions() {
        return functions;
    }

    /** Names of the table functions that the extensions register, lower case. */
    static List tableFunctions() {
        return tableFunctions;
    }

    /** The outermost parser when this one is the innermost. */
    static ParserInterface before(KeepingParser spark) {
        return made == null ? (ParserInterface) spark : made.buildParser(null, spark);
    }

    /** Whether the class of this object came in a jar of an extension. */
    static boolean brought(Object value) {
        if (made == null) {
            return false;
        }
        Boolean known = (Boolean) BROUGHT.get(value.getClass());
        if (known == null) {
            known = Boolean.valueOf(jars.contains(jarOf(value.getClass())));
            BROUGHT.put(value.getClass(), known);
        }
        return known.booleanValue();
    }

    /** Whether this is one of Iceberg's terms, a column or a transform of one, which prints all that it is. */
    static boolean isTerm(Object value) {
        return brought(value) && value.getClass().getName().startsWith("org.apache.iceberg.expressions.");
    }

    /** Whether Iceberg's parser, done with the text, only failed for want of the catalogs of a session. */
    static boolean asksForCatalogs(Exception failed) {
        StackTraceElement[] stack = failed.getStackTrace();
        for (int i = 0; failed instanceof NullPointerException && i < stack.length; i++) {
            if (stack[i].getClassName().equals(VIEWS_OF_ICEBERG)) {
                return true;
            }
        }
        return false;
    }

    private static Class found(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException absent) {
            throw new IllegalStateException("no jar of the parser has the extension " + name);
        }
    }

    private static String jarOf(Class one) {
        java.security.CodeSource source = one.getProtectionDomain().getCodeSource();
        URL place = source == null ? null : source.getLocation();
        return place == null ? "" : place.toString();
    }

    /** The functions that are injected; none may take the place of one of Spark's. */
    private static List injected(String field, scala.collection.Iterable builtin) throws Exception {
        Field held = SparkSessionExtensions.class.getDeclaredField(field);
        held.setAccessible(true);
        List descriptions = ScalaValues.list((scala.collection.Iterable) held.get(made));
        List names = new ArrayList();
        List own = Answers.names(builtin);
        for (int i = 0; i < descriptions.size(); i++) {
            Object identifier = ((scala.Product) descriptions.get(i)).productElement(0);
            String name = ((org.apache.spark.sql.catalyst.FunctionIdentifier) identifier).funcName()
                .toLowerCase(java.util.Locale.ROOT);
            if (own.contains(name)) {
                throw new IllegalStateException("an extension replaces Spark's function " + name);
            }
            names.add(name);
        }
        return names;
    }

    /**
     * Iceberg's parser wants an active session for a rule that most statements pass unchanged. There is none
     * here, so it gets one that nothing was ever put into; settings stay those of the reader.
     */
    private static void activateSession() throws Exception {
        Class kind = sessionClass();
        Object session = blank(kind);
        Object context = blank(Class.forName("org.apache.spark.SparkContext"));
        put(context, "stopped", new java.util.concurrent.atomic.AtomicBoolean(false));
        put(session, "sparkContext", context);
        Class.forName(kind.getName() + "$"); // the object, which asks the active session for settings from then on
        org.apache.spark.sql.SparkSession$.MODULE$.setActiveSession((org.apache.spark.sql.SparkSession) session);
        SQLConf$.MODULE$.setSQLConfGetter(new OwnSettings());
    }

    private static Class sessionClass() throws Exception {
        try {
            return Class.forName("org.apache.spark.sql.classic.SparkSession");
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.spark.sql.SparkSession");
        }
    }

    private static Object blank(Class kind) throws Exception {
        Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        java.lang.reflect.Method allocate =
            unsafe.getType().getMethod("allocateInstance", new Class[] {Class.class});
        return allocate.invoke(unsafe.get(null), new Object[] {kind});
    }

    private static void put(Object into, String name, Object value) throws Exception {
        Field field = into.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(into, value);
    }

    /** The settings of the thread, as they are without a session. */
    static final class OwnSettings extends scala.runtime.AbstractFunction0 {
        public Object apply() {
            return SQLConf$.MODULE$.getFallbackConf();
        }
    }
}
