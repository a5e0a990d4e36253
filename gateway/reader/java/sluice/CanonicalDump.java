package sluice;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.PosParameter;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;

/**
 * Writes a plan as text so that two plans are the same statement exactly when their texts are equal.
 *
 * Left out: positions, and the copies of SQL text that views and DESCRIBE QUERY keep beside the parsed
 * query. Expression ids are numbered in order of appearance, and references to common table expressions are
 * marked as such, which the plan itself does not do. Everything else is written with its type and length; a
 * value of an unknown kind is an error, so that nothing can differ unseen.
 */
final class CanonicalDump {
    /** Fields that repeat, as text, a query which is compared as a plan. */
    private static final List TEXT_COPIES = java.util.Arrays.asList(new Object[] {
        "CreateView.originalText", "CreateViewCommand.originalText", "AlterViewAs.originalText",
        "CacheTableAsSelect.originalText", "DescribeQueryCommand.queryText",
        "CreateMaterializedViewAsSelect.originalText", "CreateStreamingTableAsSelect.originalText",
    });

    /** CLUSTER BY of a table that is created: Delta's parser has a class of its own for Spark's. */
    private static final String DELTA_CLUSTERING =
        "org.apache.spark.sql.delta.skipping.clustering.temp.ClusterByTransform";
    private static final String CLUSTERING = "org.apache.spark.sql.connector.expressions.ClusterByTransform";

    private static final Set KEEPING_COPIES = new HashSet();

    static {
        for (int i = 0; i < TEXT_COPIES.size(); i++) {
            String field = (String) TEXT_COPIES.get(i);
            KEEPING_COPIES.add(field.substring(0, field.indexOf('.')));
        }
    }

    /** A value that cannot be compared. */
    static final class Incomparable extends RuntimeException {
        Incomparable(String message) {
            super(message);
        }
    }

    private final StringBuilder out = new StringBuilder(4096);
    private Map expressionIds = new HashMap();
    private int expressionCount;
    private final IdentityHashMap types = new IdentityHashMap();
    /** Node → LogicalPlan that stands in its place. */
    private final IdentityHashMap plans;
    /** Node → List of name parts that stand in place of its own. */
    private final IdentityHashMap names;
    /** Relation nodes that are references to common table expressions, of all plans that take part. */
    private final IdentityHashMap references;
    /** Parameter markers of the text: one without a name is known by its turn, not by its place. */
    Markers markers;
    /** Node that makes a view → key and value of a property that it has beside its own. */
    IdentityHashMap properties = new IdentityHashMap();
    /** Node that makes a function → Map of what its body and its comment become. */
    IdentityHashMap fields = new IdentityHashMap();
    /** Action of a MERGE without a condition → the one that it gets. */
    IdentityHashMap conditions = new IdentityHashMap();
    /** Nodes of `plans`, `names`, `properties`, `fields` and `conditions` that were met. */
    final IdentityHashMap met = new IdentityHashMap();

    CanonicalDump(IdentityHashMap plans, IdentityHashMap names, IdentityHashMap references) {
        this.plans = plans;
        this.names = names;
        this.references = references;
    }

    static String of(Object value) {
        return of(value, new CanonicalDump(new IdentityHashMap(), new IdentityHashMap(), new IdentityHashMap()));
    }

    /** What the names of properties begin with that say who defines a view (gateway/model/definers.py). */
    private static final String DEFINER = "sluice.definer.";
    private static final org.apache.spark.sql.catalyst.trees.TreeNodeTag[] PARSER_TAGS = {
        org.apache.spark.sql.catalyst.expressions.Cast$.MODULE$.USER_SPECIFIED_CAST(),
        org.apache.spark.sql.catalyst.analysis.FunctionRegistry$.MODULE$.FUNC_ALIAS(),
    };

    static String of(Object value, CanonicalDump dump) {
        dump.write(value);
        return dump.out.toString();
    }

    private void write(Object written) {
        if (out.length() > Limits.CANONICAL_CHARS) {
            throw new Incomparable("the plan is too large to compare");
        }
        Object value = WrittenNames.meant(written);
        if (value == null) {
            out.append('0');
        } else if (value instanceof String) {
            text('s', (String) value);
        } else if (value != itself && plans.containsKey(value)) {
            met.put(value, Boolean.TRUE);
            writeInstead((Standing) plans.get(value));
        } else if (value instanceof DataType) {
            // Before Product: a string type with a collation is none.
            writeType((DataType) value);
        } else if (value instanceof scala.Product && !(value instanceof scala.collection.Iterable)) {
            writeProduct((scala.Product) value);
        } else if (value instanceof scala.collection.Map) {
            writePairs(((scala.collection.Map) value).toSeq());
        } else if (value instanceof scala.collection.Set) {
            writeSorted(ScalaValues.list((scala.collection.Iterable) value), "{", "}");
        } else if (value instanceof scala.collection.Iterable) {
            writeAll(ScalaValues.list((scala.collection.Iterable) value));
        } else if (value instanceof Object[]) {
            writeAll(java.util.Arrays.asList((Object[]) value));
        } else {
            writeScalar(value);
        }
    }

    /** What stands in for a node. Guards are parsed once and may stand in several places: each place's
     *  expression ids are its own, as they are when the whole text is parsed. */
    static final class Standing {
        private final Object plan;
        private final Map expressionIds;
        /** Whether something else may stand in the place of it, too. */
        private final boolean again;

        Standing(Object plan, Map expressionIds) {
            this.plan = plan;
            this.expressionIds = expressionIds;
            this.again = false;
        }

        private Standing(Object plan, boolean again) {
            this.plan = plan;
            this.expressionIds = null;
            this.again = again;
        }

        /** A node that stands as it is within what stands in its place. */
        static Standing itself(Object node) {
            return new Standing(node, false);
        }

        /** A node that stands there with all that was put in the place of it, or of what is in it. */
        static Standing moved(Object node) {
            return new Standing(node, true);
        }
    }

    /** Whether it is of a statement that makes a variable. */
    private boolean declares;

    /** The node that is written as it is, though something stands in its place. */
    private Object itself;

    private void writeInstead(Standing standing) {
        Map around = expressionIds;
        Object before = itself;
        if (standing.expressionIds != null) {
            expressionIds = standing.expressionIds;
        } else if (!standing.again) {
            itself = standing.plan;
        }
        write(standing.plan);
        expressionIds = around;
        itself = before;
    }

    private void writeType(DataType type) {
        String written = (String) types.get(type);
        if (written == null) {
            written = className(type) + " " + type.json() + " " + type.catalogString();
            types.put(type, written);
        }
        text('t', written);
    }

    private void writeProduct(scala.Product product) {
        if (product instanceof Origin) {
            return;
        }
        if (product instanceof ExprId) {
            Object number = expressionIds.get(product);
            if (number == null) {
                number = Integer.valueOf(expressionCount++);
                expressionIds.put(product, number);
            }
            out.append('#').append(number);
            return;
        }
        if (product instanceof PosParameter) {
            int turn = markers == null ? -1 : markers.turnOf(((PosParameter) product).pos());
            if (turn < 0) {
                throw new Incomparable("a parameter marker stands where no value can stand");
            }
            out.append('?').append(turn);
            return;
        }
        if (references.containsKey(product)) {
            out.append('@');
        }
        out.append(className(product)).append('(');
        List elements = ScalaValues.elements(product);
        List renamed = (List) names.get(product);
        if (renamed != null) {
            met.put(product, Boolean.TRUE);
            elements.set(0, renamed(elements.get(0), renamed));
        }
        String simple = ScalaValues.name(product);
        if (simple.equals("CacheTable") && names.containsKey(elements.get(0))) {
            // The command repeats its table's name.
            elements.set(1, names.get(elements.get(0)));
        }
        List added = (List) properties.get(product);
        if (added != null) {
            met.put(product, Boolean.TRUE);
            addProperty(product, elements, (String) added.get(0), (String) added.get(1));
        }
        Object condition = conditions.get(product);
        if (condition != null) {
            met.put(product, Boolean.TRUE);
            elements.set(0, scala.Option$.MODULE$.apply(condition));
        }
        Map given = (Map) fields.get(product);
        if (given != null) {
            met.put(product, Boolean.TRUE);
            giveFields(product, elements, given);
        }
        declares |= simple.equals("CreateVariable");
        for (int i = 0; i < elements.size(); i++) {
            if (i > 0) {
                out.append(',');
            }
            if (!isTextCopy(simple, product, i) && !isOfVariable(simple, product, i)) {
                writeElement(elements.get(i));
            }
        }
        out.append(')');
        if (product instanceof TreeNode) {
            List more = ScalaValues.list(((TreeNode) product).otherCopyArgs());
            if (!more.isEmpty()) {
                writeAll(more);
            }
            writeTags((TreeNode) product);
        }
    }

    private static void giveFields(scala.Product product, List elements, Map given) {
        int found = 0;
        for (int i = 0; i < elements.size(); i++) {
            String field = ScalaValues.elementName(product, i);
            boolean body = field.equals("exprText") || field.equals("queryText");
            Object text = body && ((scala.Option) elements.get(i)).isDefined() ? given.get("body")
                : field.equals("comment") ? given.get("comment") : null;
            if (text != null) {
                elements.set(i, scala.Option$.MODULE$.apply(text));
                found++;
            }
        }
        if (found != given.size()) {
            throw new Incomparable("a function without a body of one text");
        }
    }

    private static void addProperty(scala.Product product, List elements, String key, String value) {
        for (int i = 0; i < elements.size(); i++) {
            if (ScalaValues.elementName(product, i).equals("properties")) {
                scala.collection.immutable.Map own =
                    withoutDefiner((scala.collection.immutable.Map) elements.get(i));
                if (own.contains(key)) {
                    throw new Incomparable("the view has a property that is to be added");
                }
                elements.set(i, own.updated(key, value));
                return;
            }
        }
        throw new Incomparable("a view without properties");
    }

    /** Leave out what a text says of who defines the view: it is not for the text to say. */
    private static scala.collection.immutable.Map withoutDefiner(scala.collection.immutable.Map own) {
        scala.collection.immutable.Map others = own;
        scala.collection.Iterator each = own.keysIterator();
        while (each.hasNext()) {
            String key = (String) each.next();
            if (key.toLowerCase(java.util.Locale.ROOT).startsWith(DEFINER)) {
                others = (scala.collection.immutable.Map) others.$minus(key);
            }
        }
        return others;
    }

    /** The parser marks a written CAST and a function's alias; a mark of another kind cannot be compared. */
    private void writeTags(TreeNode node) {
        if (ScalaValues.tagCount(node) == 0) {
            return;
        }
        int known = 0;
        for (int i = 0; i < PARSER_TAGS.length; i++) {
            scala.Option mark = node.getTagValue(PARSER_TAGS[i]);
            if (mark.isDefined()) {
                text('T', i + " " + mark.get());
                known++;
            }
        }
        // Plans are kept and shared between requests, so the marks are counted where they are, not taken off.
        if (known != ScalaValues.tagCount(node)) {
            throw new Incomparable(ScalaValues.name(node) + " carries tags");
        }
    }

    static boolean isTextCopy(String name, scala.Product product, int i) {
        return KEEPING_COPIES.contains(name) && TEXT_COPIES.contains(name + "." + ScalaValues.elementName(product, i));
    }

    /** Whether it is the text of what a variable is by default. That of a column is kept for whoever inserts. */
    private boolean isOfVariable(String name, scala.Product product, int i) {
        return declares && name.equals("DefaultValueExpression")
            && ScalaValues.elementName(product, i).equals("originalSQL");
    }

    /** Java lists stand for Scala's sequences where a name was replaced. */
    private void writeElement(Object element) {
        if (element instanceof List) {
            writeAll((List) element);
        } else {
            write(element);
        }
    }

    private static Object renamed(Object original, List parts) {
        return original instanceof scala.Option
            ? (Object) scala.Option$.MODULE$.apply(ScalaValues.scalaList(parts))
            : parts;
    }

    private void writeScalar(Object value) {
        if (value instanceof Double) {
            out.append('d').append(Double.doubleToRawLongBits(((Double) value).doubleValue()));
        } else if (value instanceof Float) {
            out.append('f').append(Float.floatToRawIntBits(((Float) value).floatValue()));
        } else if (value instanceof Number || value instanceof Boolean || value instanceof Character) {
            text(value.getClass().getSimpleName().charAt(0), value.toString());
        } else if (value instanceof byte[]) {
            text('x', hex((byte[]) value));
        } else if (value instanceof org.apache.spark.unsafe.types.UTF8String) {
            text('u', hex(((org.apache.spark.unsafe.types.UTF8String) value).getBytes()));
        } else if (value instanceof org.apache.spark.sql.types.Decimal) {
            org.apache.spark.sql.types.Decimal decimal = (org.apache.spark.sql.types.Decimal) value;
            text('D', decimal.toString() + "/" + decimal.precision() + "/" + decimal.scale());
        } else if (value instanceof org.apache.spark.unsafe.types.CalendarInterval) {
            org.apache.spark.unsafe.types.CalendarInterval interval =
                (org.apache.spark.unsafe.types.CalendarInterval) value;
            text('i', interval.months + "/" + interval.days + "/" + interval.microseconds);
        } else if (value instanceof Enum || value instanceof scala.Enumeration$Value) {
            text('e', className(value) + " " + value);
        } else if (value instanceof Metadata) {
            text('m', ((Metadata) value).json());
        } else if (value instanceof org.apache.spark.sql.util.CaseInsensitiveStringMap) {
            writeStringMap(((org.apache.spark.sql.util.CaseInsensitiveStringMap) value).asCaseSensitiveMap());
        } else if (ScalaValues.isPlain(value)
            || value instanceof org.apache.spark.sql.connector.catalog.TableChange.ColumnPosition) {
            text('o', className(value) + " " + value);
        } else if (value instanceof java.net.URI) {
            text('w', value.toString());
        } else if (value instanceof scala.runtime.BoxedUnit) {
            out.append('v');
        } else if (Extensions.isTerm(value)) {
            text('I', className(value) + " " + value);
        } else {
            throw new Incomparable("a value of class " + value.getClass().getName() + " cannot be compared");
        }
    }

    private void writeAll(Collection values) {
        out.append('[');
        Iterator each = values.iterator();
        while (each.hasNext()) {
            write(each.next());
            out.append(';');
        }
        out.append(']');
    }

    private void writeStringMap(Map map) {
        out.append('{');
        Iterator each = new java.util.TreeMap(map).entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            text('k', (String) entry.getKey());
            text('v', (String) entry.getValue());
        }
        out.append('}');
    }

    private void writePairs(scala.collection.Seq pairs) {
        // Maps hold strings only; sorting their written pairs makes the order of a hash map immaterial.
        writeSorted(ScalaValues.list(pairs), "{", "}");
    }

    private void writeSorted(List values, String open, String close) {
        List written = new ArrayList();
        for (int i = 0; i < values.size(); i++) {
            int from = out.length();
            write(values.get(i));
            written.add(out.substring(from));
            out.setLength(from);
        }
        Collections.sort(written);
        out.append(open);
        for (int i = 0; i < written.size(); i++) {
            out.append(written.get(i)).append(';');
        }
        out.append(close);
    }

    private void text(char kind, String text) {
        out.append(kind).append(text.length()).append(':').append(text);
    }

    private static String className(Object value) {
        String name = value.getClass().getName();
        if (name.equals(DELTA_CLUSTERING)) {
            name = CLUSTERING;
        }
        return name.startsWith("org.apache.spark.sql.") ? name.substring(21) : name;
    }

    private static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder(bytes.length * 2);
        for (int i = 0; i < bytes.length; i++) {
            digits.append(Character.forDigit((bytes[i] >> 4) & 15, 16));
            digits.append(Character.forDigit(bytes[i] & 15, 16));
        }
        return digits.toString();
    }
}
