package sluice;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.CatalystIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;

/** A command's fields as plain values: enough to see locations, providers, options, flags and patterns. */
final class CommandFields {
    /** Nodes that are nothing but a name; its parts come first in each. */
    private static final List NAMES = java.util.Arrays.asList(new Object[] {
        "UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedView",
        "UnresolvedIdentifier", "UnresolvedNamespace", "UnresolvedFunctionName", "UnresolvedProcedure",
    });

    private final ParsedText parsed;
    /** Name node → the span that the walk found for it. */
    private final Map spans;

    CommandFields(ParsedText parsed, Map spans) {
        this.parsed = parsed;
        this.spans = spans;
    }

    Map json(LogicalPlan command) {
        Map fields = new LinkedHashMap();
        for (int i = 0; i < command.productArity(); i++) {
            fields.put(ScalaValues.elementName(command, i), value(command.productElement(i), 0));
        }
        Map told = new LinkedHashMap();
        told.put("node", ScalaValues.name(command));
        told.put("fields", fields);
        ParsedText.Span span = parsed.originOf(command);
        told.put("span", span == null ? null : span.json());
        return told;
    }

    private Object value(Object value, int depth) {
        if (value == null || value instanceof String || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Number) {
            return number((Number) value);
        }
        if (depth > Limits.FIELD_DEPTH) {
            return marked(ScalaValues.name(value), "elided");
        }
        if (value instanceof DataType) {
            return ((DataType) value).sql();
        }
        if (value instanceof scala.Option) {
            scala.Option option = (scala.Option) value;
            return option.isDefined() ? value(option.get(), depth + 1) : null;
        }
        if (value instanceof LogicalPlan) {
            return plan((LogicalPlan) value);
        }
        if (value instanceof Literal) {
            Object inner = ((Literal) value).value();
            return inner == null || inner instanceof Boolean ? inner
                : inner instanceof Number ? number((Number) inner) : inner.toString();
        }
        if (value instanceof UnresolvedAttribute) {
            Map told = marked("UnresolvedAttribute", null);
            told.put("parts", ScalaValues.strings(((UnresolvedAttribute) value).nameParts()));
            return told;
        }
        if (ScalaValues.name(value).equals("UnresolvedFieldName")) {
            Map told = marked("UnresolvedFieldName", "expression");
            told.put("parts", ScalaValues.strings(((scala.Product) value).productElement(0)));
            return told;
        }
        if (value instanceof CatalystIdentifier) {
            Map told = marked(ScalaValues.name(value), null);
            told.put("parts", PlanWalk.identifierParts((CatalystIdentifier) value));
            putSpan(told, value);
            return told;
        }
        if (value instanceof Expression && !isStructure(value)) {
            return marked(ScalaValues.name(value), "expression");
        }
        if (value instanceof scala.collection.Map) {
            return pairs(ScalaValues.list(((scala.collection.Map) value).toSeq()), depth);
        }
        if (value instanceof org.apache.spark.sql.util.CaseInsensitiveStringMap) {
            return new TreeMap(
                ((org.apache.spark.sql.util.CaseInsensitiveStringMap) value).asCaseSensitiveMap());
        }
        if (value instanceof scala.collection.Iterable) {
            return values(ScalaValues.list((scala.collection.Iterable) value), depth);
        }
        if (value instanceof Object[]) {
            return values(java.util.Arrays.asList((Object[]) value), depth);
        }
        if (value instanceof scala.Product && ((scala.Product) value).productArity() > 0) {
            return product((scala.Product) value, depth);
        }
        // Enumerations, case objects, interval and other scalars: Spark's own name for them.
        return value.toString();
    }

    /** Expressions that only structure a command, such as a column's definition: their fields are shown. */
    private static boolean isStructure(Object value) {
        return value.getClass().getName().startsWith("org.apache.spark.sql.catalyst.plans.logical.")
            || ScalaValues.name(value).equals("UnresolvedPartitionSpec")  // it may hold a LOCATION
            || ScalaValues.name(value).equals("NamedArgumentExpression");
    }

    private static Object number(Number value) {
        if (value instanceof Integer || value instanceof Long || value instanceof Short
            || value instanceof Byte) {
            return value;
        }
        return value.toString();
    }

    private Object product(scala.Product product, int depth) {
        if (product.getClass().getName().startsWith("scala.Tuple")) {
            return values(ScalaValues.elements(product), depth);
        }
        // Option lists are options whichever class carries them: shown as a mapping.
        if (ScalaValues.name(product).equals("OptionList")) {
            return pairs(ScalaValues.list((scala.collection.Iterable) product.productElement(0)), depth);
        }
        Map told = marked(ScalaValues.name(product), null);
        for (int i = 0; i < product.productArity(); i++) {
            told.put(ScalaValues.elementName(product, i), value(product.productElement(i), depth + 1));
        }
        return told;
    }

    private Map pairs(List entries, int depth) {
        Map told = new TreeMap();
        Iterator each = entries.iterator();
        while (each.hasNext()) {
            scala.Product entry = (scala.Product) each.next();
            Object key = entry.productElement(0);
            told.put(key instanceof String ? key : String.valueOf(key), value(entry.productElement(1), depth + 1));
        }
        return told;
    }

    private List values(List all, int depth) {
        ArrayList told = new ArrayList(all.size());
        for (int i = 0; i < all.size(); i++) {
            told.add(value(all.get(i), depth + 1));
        }
        return told;
    }

    private Map plan(LogicalPlan plan) {
        String name = ScalaValues.name(plan);
        if (PlanWalk.isCommand(plan)) {
            return marked(name, "command");
        }
        if (!NAMES.contains(name)) {
            return marked(name, "query");
        }
        Map told = marked(name, null);
        told.put("parts", ScalaValues.strings(plan.productElement(0)));
        putSpan(told, plan);
        return told;
    }

    private void putSpan(Map told, Object node) {
        ParsedText.Span span = (ParsedText.Span) spans.get(node);
        if (span != null) {
            told.put("span", span.json());
        }
    }

    private static Map marked(String node, String mark) {
        Map told = new LinkedHashMap();
        told.put("node", node);
        if (mark != null) {
            told.put(mark, Boolean.TRUE);
        }
        return told;
    }
}
