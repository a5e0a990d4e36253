package sluice;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Scala's values for Java code that Janino compiles: no lambdas, no generics. What Scala 2.12 or an older Spark
 * does not have is found by name.
 */
final class ScalaValues {
    private static final ConcurrentHashMap NAMES = new ConcurrentHashMap();
    private static final Class[] NOTHING = {};
    private static final Field TAGS = tags();
    /** Classes of values that hold nothing, of Sparks that have them. */
    private static final Class[] PLAIN = {
        known("org.apache.spark.sql.catalyst.analysis.ViewSchemaMode"),
        known("org.apache.spark.sql.catalyst.analysis.ViewType"),
        known("org.apache.spark.sql.connector.catalog.IdentityColumnSpec"),
    };
    /** Scala 2.13's `Product.productElementName`. */
    private static final Method ELEMENT_NAME = method(scala.Product.class, "productElementName", new Class[] {int.class});
    /** Class → names of its elements, for Scala 2.12. */
    private static final ConcurrentHashMap ELEMENT_NAMES = new ConcurrentHashMap();

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

    /** The name of an element. */
    static String elementName(scala.Product product, int i) {
        if (ELEMENT_NAME != null) {
            return (String) call(ELEMENT_NAME, product, new Object[] {Integer.valueOf(i)});
        }
        String[] names = (String[]) ELEMENT_NAMES.get(product.getClass());
        if (names == null) {
            names = declaredNames(product);
            ELEMENT_NAMES.put(product.getClass(), names);
        }
        return names[i];
    }

    /** The constants that Scala declares first are a case class's parameters, each with a method to ask for it. */
    private static String[] declaredNames(scala.Product product) {
        String[] names = new String[product.productArity()];
        Field[] fields = product.getClass().getDeclaredFields();
        int found = 0;
        for (int i = 0; i < fields.length && found < names.length; i++) {
            int modifiers = fields[i].getModifiers();
            if (Modifier.isStatic(modifiers) || !Modifier.isFinal(modifiers)) {
                continue;  // what is computed later
            }
            Method accessor = method(product.getClass(), fields[i].getName(), NOTHING);
            Object element = product.productElement(found);
            Object told = accessor == null ? null : call(accessor, product, NOTHING);
            if (accessor == null || (element == null ? told != null : !element.equals(told))) {
                break;
            }
            names[found++] = fields[i].getName();
        }
        if (found < names.length) {
            throw new IllegalStateException("the fields of " + product.getClass().getName() + " have no names");
        }
        return names;
    }

    /** What a method without parameters returns, or `otherwise` where there is no such method. */
    static Object callOr(Object of, String name, Object otherwise) {
        Method method = method(of.getClass(), name, NOTHING);
        return method == null ? otherwise : call(method, of, NOTHING);
    }

    /** What the method of that name and of one parameter returns. */
    static Object callWith(Object of, String name, Object argument) {
        Method[] methods = of.getClass().getMethods();
        for (int i = 0; i < methods.length; i++) {
            if (methods[i].getName().equals(name) && methods[i].getParameterTypes().length == 1) {
                return call(methods[i], of, new Object[] {argument});
            }
        }
        throw new IllegalStateException("a part of a plan has no " + name);
    }

    /** What a static method without parameters returns. */
    static Object callStatic(Class of, String name) {
        return call(method(of, name, NOTHING), null, NOTHING);
    }

    private static Object call(Method method, Object of, Object[] arguments) {
        try {
            return method.invoke(of, arguments);
        } catch (ReflectiveOperationException closed) {
            throw new IllegalStateException("a part of a plan cannot be read", closed);
        }
    }

    /** The method, or null where there is none such. */
    static Method method(Class in, String name, Class[] parameters) {
        try {
            return in.getMethod(name, parameters);
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    /** The class, or null where this Spark has none such. */
    static Class known(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    /** A list of Scala's, of the elements of one of Java's. */
    static scala.collection.immutable.List scalaList(List elements) {
        scala.collection.immutable.List all = (scala.collection.immutable.List) scala.collection.immutable.List$.MODULE$.empty();
        for (int i = elements.size() - 1; i >= 0; i--) {
            all = all.$colon$colon(elements.get(i));
        }
        return all;
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
            Object tags = TAGS.get(node);
            return tags == null ? 0 : ((scala.collection.Map) tags).size();
        } catch (IllegalAccessException closed) {
            throw new IllegalStateException("the marks of a plan cannot be read", closed);
        }
    }

    private static Field tags() {
        Field[] fields = org.apache.spark.sql.catalyst.trees.TreeNode.class.getDeclaredFields();
        for (int i = 0; i < fields.length; i++) {
            // `tags` before Spark 4.0.
            if (fields[i].getName().equals("_tags") || fields[i].getName().equals("tags")) {
                fields[i].setAccessible(true);
                return fields[i];
            }
        }
        throw new IllegalStateException("this Spark keeps the marks of a plan elsewhere");
    }

    /** A value of a kind that not all Sparks have, which is only what it prints as. */
    static boolean isPlain(Object value) {
        for (int i = 0; i < PLAIN.length; i++) {
            if (PLAIN[i] != null && PLAIN[i].isInstance(value)) {
                return true;
            }
        }
        return false;
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
            || isPlain(value)
            || value instanceof org.apache.spark.sql.types.DataType
            || value instanceof org.apache.spark.sql.types.Metadata
            || value instanceof org.apache.spark.sql.types.Decimal
            || value instanceof org.apache.spark.sql.catalyst.trees.Origin
            || value instanceof org.apache.spark.sql.catalyst.expressions.ExprId
            || value instanceof org.apache.spark.sql.util.CaseInsensitiveStringMap
            || value instanceof org.apache.spark.unsafe.types.UTF8String
            || value instanceof org.apache.spark.unsafe.types.CalendarInterval
            || value instanceof org.apache.spark.sql.connector.catalog.TableChange.ColumnPosition
            || value instanceof java.net.URI
            || value instanceof byte[]
            || Extensions.isTerm(value);
    }
}
