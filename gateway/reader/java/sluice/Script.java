package sluice;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;

/**
 * What a script (BEGIN … END) is made of: its statements, queries and conditions, each with the place of its text;
 * and its skeleton, which is all the rest of it, with a hole for each of them.
 *
 * Spark parses a script once and runs the plans in it; of a cursor it keeps the text, and parses that when the
 * cursor is opened. Of each part it is told whether its text, standing alone, is that very plan. Classes are known
 * by name, because older Sparks do not have them.
 */
final class Script {
    private static final List STRUCTURE = Arrays.asList(new Object[] {
        "CompoundBody", "IfElseStatement", "WhileStatement", "RepeatStatement", "LoopStatement", "ForStatement",
        "SearchedCaseStatement", "SimpleCaseStatement", "LeaveStatement", "IterateStatement", "ExceptionHandler",
        "ErrorCondition", "OpenCursor", "FetchCursor", "CloseCursor",
    });
    private static final List CURSORS =
        Arrays.asList(new Object[] {"DeclareCursor", "OpenCursor", "FetchCursor", "CloseCursor"});
    /** What runs what is in it any number of times, or at a moment that is not known. */
    private static final List REPEATING = Arrays.asList(new Object[] {
        "WhileStatement", "RepeatStatement", "LoopStatement", "ForStatement", "ExceptionHandler",
    });
    /** Blocks and loops without a label get one by chance, another one each time. */
    private static final Pattern CHANCE =
        Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
    private static final Pattern HANDLER =
        Pattern.compile("DECLARE\\s+\\w+\\s+HANDLER\\b", Pattern.CASE_INSENSITIVE);
    private static final Pattern WORD = Pattern.compile("\\w+|\\(");
    private static final int MAX_WORDS = 32;
    private static final String SELECT = "SELECT ";

    private final ParsedText parsed;
    private final List parts = new ArrayList();
    /** Name parts of the variables that FETCH writes to. */
    private final List targets = new ArrayList();
    private final List strange = new ArrayList();
    /** The queries of the FOR loops around what is visited, as numbers of parts. */
    private List loops = new ArrayList();
    private final IdentityHashMap holes = new IdentityHashMap();

    private Script(ParsedText parsed) {
        this.parsed = parsed;
    }

    static Map of(ParsedText parsed) {
        Script script = new Script(parsed);
        boolean is = "CompoundBody".equals(ScalaValues.name(parsed.root));
        String skeleton = "";
        if (is) {
            script.visit(parsed.root, "", false);
            IdentityHashMap none = new IdentityHashMap();
            CanonicalDump dump = new CanonicalDump(script.holes, none, none);
            skeleton = script.strange.isEmpty() ? withoutChance(CanonicalDump.of(parsed.root, dump)) : "";
            if (dump.met.size() != script.holes.size()) {
                script.strange.add("a part within another one");
            }
        }
        Map told = new LinkedHashMap();
        told.put("script", Boolean.valueOf(is));
        told.put("skeleton", skeleton);
        told.put("parts", script.parts);
        told.put("targets", script.targets);
        told.put("strange", script.strange);
        return told;
    }

    private void visit(Object value, String role, boolean repeats) {
        if (value == null || value instanceof String || ScalaValues.isLeaf(value)) {
            return;
        }
        if (value instanceof scala.Option) {
            visit(((scala.Option) value).isDefined() ? ((scala.Option) value).get() : null, role, repeats);
        } else if (value instanceof scala.collection.Map) {
            visitAll(ScalaValues.list(((scala.collection.Map) value).toSeq()), role, repeats);
        } else if (value instanceof scala.collection.Iterable) {
            visitAll(ScalaValues.list((scala.collection.Iterable) value), role, repeats);
        } else if (value instanceof Expression) {
            note("expression", value, value, role, repeats);
        } else if (value instanceof scala.Product) {
            visitNode((scala.Product) value, role, repeats);
        } else if (ScalaValues.name(value).equals("ExceptionHandlerTriggers")) {
            noteTriggers(value);
        } else {
            strange.add(ScalaValues.name(value));
        }
    }

    /** What a handler is for: conditions, SQLSTATEs, and two that are for all of a kind. */
    private void noteTriggers(Object triggers) {
        StringBuilder says = new StringBuilder("triggers");
        String[] kinds = {"conditions", "sqlStates", "sqlException", "notFound"};
        for (int i = 0; i < kinds.length; i++) {
            Object held = ScalaValues.callOr(triggers, kinds[i], null);
            if (held == null) {
                strange.add("a handler for something else");
            } else if (held instanceof scala.collection.Iterable) {
                List names = ScalaValues.strings(((scala.collection.Iterable) held).toSeq());
                java.util.Collections.sort(names);
                says.append(' ').append(names);
            } else {
                says.append(' ').append(held);
            }
        }
        hole(triggers, says.toString());
    }

    private void visitAll(List values, String role, boolean repeats) {
        for (int i = 0; i < values.size(); i++) {
            visit(values.get(i), role, repeats);
        }
    }

    private void visitNode(scala.Product node, String role, boolean repeats) {
        String name = ScalaValues.name(node);
        if (name.equals("SingleStatement")) {
            Object plan = node.productElement(0);
            if (CURSORS.contains(ScalaValues.name(plan))) {
                visit(plan, role, repeats);
            } else if (role.startsWith("condition")) {
                note("condition", node, plan, role, repeats);
            } else {
                note(role.equals("query") ? "query" : "statement", node, plan, role, repeats);
            }
            return;
        }
        if (name.equals("DeclareCursor")) {
            noteCursor(node, repeats);
            return;
        }
        if (!STRUCTURE.contains(name) && !name.startsWith("Tuple")) {
            strange.add(name);
            return;
        }
        if (name.equals("ForStatement")) {
            visitFor(node);
            return;
        }
        boolean within = repeats || REPEATING.contains(name);
        boolean cursor = CURSORS.contains(name);
        for (int i = 0; i < node.productArity(); i++) {
            if (cursor && i == 0) {
                continue;  // the cursor's name
            }
            if (name.equals("FetchCursor")) {
                noteTargets(node.productElement(i));
            } else {
                visit(node.productElement(i), ScalaValues.elementName(node, i), within);
            }
        }
    }

    /** The columns of a loop's query are variables in its body, and nowhere else. */
    private void visitFor(scala.Product loop) {
        List around = loops;
        int query = parts.size();
        for (int i = 0; i < loop.productArity(); i++) {
            String element = ScalaValues.elementName(loop, i);
            if (element.equals("query")) {
                visit(loop.productElement(i), element, true);
                loops = new ArrayList(around);
                loops.add(Integer.valueOf(query));
            }
        }
        for (int i = 0; i < loop.productArity(); i++) {
            String element = ScalaValues.elementName(loop, i);
            if (!element.equals("query")) {
                visit(loop.productElement(i), element, true);
            }
        }
        loops = around;
    }

    private void noteTargets(Object held) {
        List all = ScalaValues.list((scala.collection.Iterable) held);
        for (int i = 0; i < all.size(); i++) {
            Object names = ScalaValues.callOr(all.get(i), "nameParts", null);
            if (names == null) {
                strange.add(ScalaValues.name(all.get(i)));
            } else {
                targets.add(ScalaValues.strings(names));
            }
        }
    }

    private void note(String kind, Object node, Object plan, String role, boolean repeats) {
        ParsedText.Span span = parsed.originOf(node);
        if (span == null) {
            strange.add(ScalaValues.name(plan) + " without a place");
            return;
        }
        String text = parsed.slice(span.start, span.end);
        int begins = kind.equals("statement") && repeats ? beginOfHandled(text, plan) : 0;
        if (begins > 0) {
            span = new ParsedText.Span(span.start + text.codePointCount(0, begins), span.end);
            text = text.substring(begins);
        }
        String lead = "";
        int cut = 0;
        boolean alone;
        if (kind.equals("condition") || kind.equals("expression")) {
            lead = SELECT;
            alone = isExpression(SELECT + text, kind.equals("condition") ? conditionOf(plan) : plan);
        } else {
            alone = isPlan(text, plan);
            if (!alone && text.length() > 3 && text.substring(0, 3).equalsIgnoreCase("SET")) {
                // In a script SET is of variables.
                lead = "SET VAR";
                cut = 3;
                alone = isPlan(lead + text.substring(cut), plan);
            }
        }
        put(kind, span, lead, cut, alone, repeats);
        hole(node, kind + " " + parts.size());
    }

    /** Spark keeps the text of a cursor's query. */
    private void noteCursor(scala.Product cursor, boolean repeats) {
        Object query = ScalaValues.callOr(cursor, "queryText", null);
        ParsedText.Span span = parsed.originOf(cursor);
        int at = query instanceof String && span != null
            ? parsed.slice(span.start, span.end).lastIndexOf((String) query) : -1;
        if (at < 0) {
            strange.add("a cursor whose query has no place");
            return;
        }
        String before = parsed.slice(span.start, span.end).substring(0, at);
        int start = span.start + before.codePointCount(0, before.length());
        int end = start + ((String) query).codePointCount(0, ((String) query).length());
        put("cursor", new ParsedText.Span(start, end), "", 0, true, repeats);
        StringBuilder rest = new StringBuilder("cursor " + parts.size());
        for (int i = 0; i < cursor.productArity(); i++) {
            if (!ScalaValues.elementName(cursor, i).equals("queryText")) {
                rest.append(' ').append(cursor.productElement(i));
            }
        }
        hole(cursor, rest.toString());
    }

    /** Where in the text of a handler its one statement begins; 0 where the text is the statement's. */
    private static int beginOfHandled(String text, Object plan) {
        Matcher word = HANDLER.matcher(text);
        if (!word.lookingAt()) {
            return 0;
        }
        Matcher begins = WORD.matcher(text);
        int at = word.end();
        for (int i = 0; i < MAX_WORDS && begins.find(at); i++) {
            String rest = text.substring(begins.start());
            if (isPlan(rest, plan) || (rest.length() > 3 && isPlan("SET VAR" + rest.substring(3), plan))) {
                return begins.start();
            }
            at = begins.end();
        }
        return 0;
    }

    private void put(String kind, ParsedText.Span span, String lead, int cut, boolean alone, boolean repeats) {
        Map part = new LinkedHashMap();
        part.put("kind", kind);
        part.put("span", span.json());
        part.put("lead", lead);
        part.put("cut", Integer.valueOf(cut));
        part.put("alone", Boolean.valueOf(alone));
        part.put("repeats", Boolean.valueOf(repeats));
        part.put("loops", loops);
        parts.add(part);
    }

    private void hole(Object node, String says) {
        holes.put(node, new CanonicalDump.Standing(says, new HashMap()));
    }

    private static Object conditionOf(Object plan) {
        if (plan instanceof Project && ((Project) plan).child() instanceof OneRowRelation) {
            List columns = ScalaValues.list(((Project) plan).projectList());
            if (columns.size() == 1 && columns.get(0) instanceof Alias) {
                return ((Alias) columns.get(0)).child();
            }
        }
        return null;
    }

    private static boolean isPlan(String text, Object plan) {
        try {
            return CanonicalDump.of(RecentTexts.ORIGINALS.parsed(text).root).equals(CanonicalDump.of(plan));
        } catch (Exception another) {
            return false;
        }
    }

    private static boolean isExpression(String text, Object expression) {
        try {
            Object plan = RecentTexts.ORIGINALS.parsed(text).root;
            if (expression == null || !(plan instanceof Project)
                || !(((Project) plan).child() instanceof OneRowRelation)) {
                return false;
            }
            List columns = ScalaValues.list(((Project) plan).projectList());
            Object alone = columns.size() == 1 ? columns.get(0) : null;
            if (alone instanceof UnresolvedAlias) {
                alone = ((UnresolvedAlias) alone).child();
            }
            return alone != null && CanonicalDump.of(alone).equals(CanonicalDump.of(expression));
        } catch (Exception another) {
            return false;
        }
    }

    private static String withoutChance(String skeleton) {
        Map numbers = new HashMap();
        Matcher matcher = CHANCE.matcher(skeleton);
        StringBuffer plain = new StringBuffer();
        while (matcher.find()) {
            Object number = numbers.get(matcher.group());
            if (number == null) {
                number = Integer.valueOf(numbers.size());
                numbers.put(matcher.group(), number);
            }
            matcher.appendReplacement(plain, "label " + number);
        }
        return matcher.appendTail(plain).toString();
    }
}
