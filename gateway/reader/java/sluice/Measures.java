package sluice;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** Where a text calls MEASURE(…), which reads a measure of a metric view. */
final class Measures {
    private static final String NAME = "measure";

    private final ParsedText parsed;
    /** Call → its span. */
    private final IdentityHashMap calls = new IdentityHashMap();
    /** Expression → the UnresolvedAlias around it, which names its column. */
    private final IdentityHashMap aliased = new IdentityHashMap();

    Measures(ParsedText parsed) {
        this.parsed = parsed;
    }

    static boolean isMeasure(UnresolvedFunction function) {
        List parts = ScalaValues.strings(function.nameParts());
        return NAME.equalsIgnoreCase((String) parts.get(parts.size() - 1));
    }

    void note(Expression expression) {
        if (expression instanceof UnresolvedAlias) {
            aliased.put(((UnresolvedAlias) expression).child(), expression);
        } else if (expression instanceof UnresolvedFunction && isMeasure((UnresolvedFunction) expression)) {
            ParsedText.Span span = parsed.originOf(expression);
            if (span != null) {
                calls.put(expression, span);
            }
        }
    }

    /** What names the column of an expression that has no alias, or null. */
    Object aliasAround(Object expression) {
        return aliased.get(expression);
    }

    /** What names columns after an expression at this range, by the expression. */
    Map aliasedAt(ParsedText.Span span) {
        Map found = new IdentityHashMap();
        Iterator each = aliased.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            if (span.same(parsed.originOf(entry.getKey()))) {
                found.put(entry.getKey(), entry.getValue());
            }
        }
        return found;
    }

    /** The nodes that an expression at this range replaces; with a name, those whose columns Spark would name. */
    List at(ParsedText.Span span, boolean named) {
        List found = new ArrayList(1);
        Iterator each = calls.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            if (span.same((ParsedText.Span) entry.getValue())) {
                Object around = aliased.get(entry.getKey());
                if (named == (around != null)) {
                    found.add(named ? around : entry.getKey());
                }
            }
        }
        return found;
    }
}
