package sluice;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/** Scala collections for Java code that Janino compiles: no lambdas, no generics. */
final class ScalaValues {
    private static final ConcurrentHashMap NAMES = new ConcurrentHashMap();
    private static final java.lang.reflect.Field TAGS = tags();

    private ScalaValues() {}

    static List list(scala.collection.Iterable values) {
        ArrayList all = new ArrayList();
        scala.collection.Iterator each = values.iterator();
        while (each.hasNext()) {
            all.add(each.next());
        }
        return all;
    }

    static List elements(scala.Product product) {
        int arity = product.productArity();
        ArrayList all = new ArrayList(arity);
        for (int i = 0; i < arity; i++) {
            all.add(product.productElement(i));
        }
        return all;
    }

    static List strings(Object seq) {
        ArrayList all = new ArrayList();
        List values = list((scala.collection.Iterable) seq);
        for (int i = 0; i < values.size(); i++) {
            all.add((String) values.get(i));
        }
        return all;
    }

    static int intOr(scala.Option option, int otherwise) {
        return option.isDefined() ? ((Number) option.get()).intValue() : otherwise;
    }

    /** Simple name of a value's class, without a Scala object's trailing dollar sign; of an anonymous class
     *  the name of the object that makes it, and `$anon`. */
    static String name(Object value) {
        String name = (String) NAMES.get(value.getClass());
        if (name == null) {
            name = simpleName(value.getClass().getName());
            NAMES.put(value.getClass(), name);
        }
        return name;
    }

    private static String simpleName(String full) {
        String simple = full.substring(full.lastIndexOf('.') + 1);
        int anonymous = simple.lastIndexOf("$$anon$");
        if (anonymous > 0 && simple.indexOf('$', anonymous + 7) < 0) {
            // Its own name is a number; it is called after what makes it.
            return simpleName(simple.substring(0, anonymous)) + "$anon";
        }
        while (simple.endsWith("$")) {
            simple = simple.substring(0, simple.length() - 1);
        }
        return simple.substring(simple.lastIndexOf('$') + 1);
    }

    /** How many marks a node carries; Spark tells only whether there are any. */
    static int tagCount(org.apache.spark.sql.catalyst.trees.TreeNode node) {
        try {
            return ((scala.collection.Map) TAGS.get(node)).size();
        } catch (IllegalAccessException closed) {
            throw new IllegalStateException("the marks of a plan cannot be read", closed);
        }
    }

    private static java.lang.reflect.Field tags() {
        try {
            java.lang.reflect.Field tags =
                org.apache.spark.sql.catalyst.trees.TreeNode.class.getDeclaredField("_tags");
            tags.setAccessible(true);
            return tags;
        } catch (NoSuchFieldException other) {
            throw new IllegalStateException("this Spark keeps the marks of a plan elsewhere", other);
        }
    }

    /** Values that hold no plan, no expression and no name: the walk stops at them. */
    static boolean isLeaf(Object value) {
        if (value instanceof org.apache.spark.sql.catalyst.trees.TreeNode) {
            return false;
        }
        return value == null
            || value instanceof String
            || value instanceof Number
            || value instanceof Boolean
            || value instanceof Character
            || value instanceof Enum
            || value instanceof scala.Enumeration$Value
            || value instanceof scala.runtime.BoxedUnit
            || value instanceof org.apache.spark.sql.catalyst.analysis.ViewSchemaMode
            || value instanceof org.apache.spark.sql.catalyst.analysis.ViewType
            || value instanceof org.apache.spark.sql.types.DataType
            || value instanceof org.apache.spark.sql.types.Metadata
            || value instanceof org.apache.spark.sql.types.Decimal
            || value instanceof org.apache.spark.sql.catalyst.trees.Origin
            || value instanceof org.apache.spark.sql.catalyst.expressions.ExprId
            || value instanceof org.apache.spark.sql.util.CaseInsensitiveStringMap
            || value instanceof org.apache.spark.unsafe.types.UTF8String
            || value instanceof org.apache.spark.unsafe.types.CalendarInterval
            || value instanceof org.apache.spark.sql.connector.catalog.IdentityColumnSpec
            || value instanceof org.apache.spark.sql.connector.catalog.TableChange.ColumnPosition
            || value instanceof java.net.URI
            || value instanceof byte[]
            || Extensions.isTerm(value);
    }
}
