package sluice;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamedParameter;
import org.apache.spark.sql.catalyst.analysis.PosParameter;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * The parameter markers of a text: `:name` and `?`.
 *
 * Spark writes each argument into the text as a literal and parses the result. So a marker can be relied on
 * only where the parse tree has it as a value, the plan has it as an expression, and no character beside it
 * could become one token with the literal: `a -?` with -1 is `a --1`, a comment that swallows the line.
 */
final class Markers {
    /** Characters that may stand before a marker and after one; blanks may, too. None of them joins with the
     *  first or last character of a literal: a minus sign, a quote, a letter, a digit, a bracket. A minus sign
     *  may stand after a marker only: no literal ends with one. */
    private static final String BEFORE = " \t\r\n(,[=<>+*|%&^/";
    private static final String AFTER = " \t\r\n),][=<>+-*/|%&^!;";

    private final ParsedText parsed;
    /** Ranges of the markers that the plan holds as expressions. */
    private final Set held = new HashSet();
    private boolean unplaced;
    /** Position of a marker without a name → its turn. */
    private Map turns;

    Markers(ParsedText parsed) {
        this.parsed = parsed;
    }

    void note(Expression expression) {
        if (expression instanceof NamedParameter || expression instanceof PosParameter) {
            ParsedText.Span span = parsed.originOf(expression);
            if (span == null) {
                unplaced = true;
            } else {
                held.add(Long.valueOf(span.key()));
            }
        }
    }

    boolean isEmpty() {
        return !unplaced && parsed.forms().markers.isEmpty();
    }

    /** Which of the markers without a name the one at this code point is, or -1. */
    synchronized int turnOf(int position) {
        if (turns == null) {
            turns = new HashMap();
            Iterator each = parsed.forms().markers.keySet().iterator();
            while (each.hasNext()) {
                ParsedText.Span span = ParsedText.Span.ofKey(((Long) each.next()).longValue());
                if (parsed.slice(span.start, span.start + 1).equals("?")) {
                    turns.put(Integer.valueOf(span.start), Integer.valueOf(turns.size()));
                }
            }
        }
        Integer turn = (Integer) turns.get(Integer.valueOf(position));
        return turn == null ? -1 : turn.intValue();
    }

    List json() {
        List told = new ArrayList();
        Iterator each = parsed.forms().markers.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            ParsedText.Span span = ParsedText.Span.ofKey(((Long) entry.getKey()).longValue());
            boolean value = Boolean.TRUE.equals(entry.getValue()) && held.contains(entry.getKey());
            told.add(marker(span, value, apart(span)));
        }
        if (unplaced) {
            told.add(marker(null, false, false));
        }
        return told;
    }

    private Map marker(ParsedText.Span span, boolean value, boolean apart) {
        Map told = new LinkedHashMap();
        told.put("span", span == null ? null : span.json());
        told.put("value", Boolean.valueOf(value));
        told.put("apart", Boolean.valueOf(apart));
        return told;
    }

    private boolean apart(ParsedText.Span span) {
        boolean before = span.start == 0 || BEFORE.contains(parsed.slice(span.start - 1, span.start));
        if (!before) {
            return false;
        }
        if (span.end == parsed.length() || AFTER.contains(parsed.slice(span.end, span.end + 1))) {
            return true;
        }
        return span.end + 2 <= parsed.length() && parsed.slice(span.end, span.end + 2).equals("::");
    }
}
