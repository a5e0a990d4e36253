package sluice;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** What each request is answered with. */
final class Answers {
    /** Characters of a command whose plan is printed. */
    private static final int MAX_PRINTED = 2000;

    private Answers() {}

    static Map answer(String operation, Map request) {
        if (operation.equals("read")) {
            return reading(RecentTexts.ORIGINALS, (String) request.get("text"), false);
        }
        if (operation.equals("expression")) {
            return reading(RecentTexts.EXPRESSIONS, (String) request.get("text"), true);
        }
        if (operation.equals("names") || operation.equals("tree")) {
            boolean expression = Boolean.TRUE.equals(request.get("expression"));
            RecentTexts texts = expression ? RecentTexts.EXPRESSIONS : RecentTexts.ORIGINALS;
            ParsedText parsed = texts.parsed((String) request.get("text"));
            Map told = new LinkedHashMap();
            told.put(operation, operation.equals("names")
                ? ColumnNames.of(parsed) : ExpressionTree.of(parsed, parsed.walk(), true));
            return told;
        }
        if (operation.equals("prove")) {
            return Prover.json(Prover.why(
                (String) request.get("original"), (String) request.get("rewritten"),
                (List) request.get("splices"), (List) request.get("allowed"),
                Boolean.TRUE.equals(request.get("expression"))));
        }
        if (operation.equals("script")) {
            return Script.of(RecentTexts.ORIGINALS.parsed((String) request.get("text")));
        }
        if (operation.equals("chain")) {
            Map told = new LinkedHashMap();
            told.put("plan", ParserChain.ofThread().unchecked((String) request.get("text")));
            return told;
        }
        if (operation.equals("fingerprint")) {
            Map told = new LinkedHashMap();
            told.put("fingerprint", Fingerprint.of((String) request.get("text")));
            return told;
        }
        if (operation.equals("contexts")) {
            Map told = new LinkedHashMap();
            told.put("contexts", ParsedText.contexts((String) request.get("text")));
            return told;
        }
        if (operation.equals("states")) {
            Map told = new LinkedHashMap();
            told.put("states", Long.valueOf(ParserCaches.states()));
            return told;
        }
        throw new IllegalArgumentException("unknown operation");
    }

    /** The first message: what this parser is, and which functions a session has before anybody makes one. */
    static Map hello() {
        Map told = new LinkedHashMap();
        told.put("spark", org.apache.spark.package$.MODULE$.SPARK_VERSION());
        told.put("extensions", Extensions.classes());
        told.put("parsers", ParserChain.frames());
        List functions = names(FunctionRegistry$.MODULE$.builtin().listFunction());
        functions.addAll(Extensions.functions());
        told.put("functions", functions);
        told.put("internal_functions", internalFunctions());
        List tableFunctions = names(TableFunctionRegistry$.MODULE$.builtin().listFunction());
        tableFunctions.addAll(Extensions.tableFunctions());
        told.put("table_functions", tableFunctions);
        told.put("keywords", ScalaValues.strings(
            org.apache.spark.sql.catalyst.util.SQLKeywordUtils$.MODULE$.keywords()));
        return told;
    }

    /** Before Spark 4.0 there are none. */
    private static List internalFunctions() {
        Object registry = ScalaValues.callOr(FunctionRegistry$.MODULE$, "internal", null);
        return registry == null ? new ArrayList() : names(((FunctionRegistry) registry).listFunction());
    }

    static List names(scala.collection.Iterable identifiers) {
        List all = ScalaValues.list(identifiers);
        List names = new ArrayList(all.size());
        for (int i = 0; i < all.size(); i++) {
            names.add(((FunctionIdentifier) all.get(i)).funcName().toLowerCase(Locale.ROOT));
        }
        return names;
    }

    private static Map reading(RecentTexts texts, String text, boolean expression) {
        ParsedText parsed = texts.parsed(text);
        String written = WrittenNames.of(parsed, expression);
        if (written != null) {
            parsed = texts.parsed(written);
        }
        Map told = reading(parsed);
        told.put("written", written);
        return told;
    }

    private static Map reading(ParsedText parsed) {
        PlanWalk walk = parsed.walk();
        Map told = new LinkedHashMap();
        told.put("root", ScalaValues.name(parsed.root));
        told.put("nodes", walk.nodes);
        told.put("expressions", walk.expressions);
        told.put("relations", relations(walk));
        told.put("columns", walk.columns);
        told.put("functions", walk.functions);
        told.put("calls", walk.calls);
        told.put("identifiers", WrittenNames.arguments(parsed));
        CommandFields fields = new CommandFields(parsed, walk.nameSpans);
        List commands = new ArrayList();
        for (int i = 0; i < walk.commands.size(); i++) {
            commands.add(fields.json((LogicalPlan) walk.commands.get(i)));
        }
        told.put("commands", commands);
        told.put("printed", commands.isEmpty() ? "" : printed(parsed));
        told.put("aliases", walk.aliases);
        told.put("parameters", walk.markers.json());
        told.put("identities", walk.identities.json());
        WrittenForms.ViewText view = parsed.forms().viewText();
        told.put("brought", Boolean.valueOf(Extensions.brought(parsed.root)));
        told.put("view_text", view == null ? null : view.json());
        told.put("tree", ExpressionTree.of(parsed, walk, false));
        told.put("doubled_quotes", Boolean.valueOf(parsed.forms().doubledQuotes()));
        return told;
    }

    /** The plan as errors print it; of one that takes pages, nothing, nor of an extension's: Delta's make up
     *  their columns by Scala's reflection then, for seconds. */
    private static String printed(ParsedText parsed) {
        return parsed.length() > MAX_PRINTED || Extensions.brought(parsed.root) ? "" : String.valueOf(parsed.root);
    }

    /** Mentions with one span appear once: a multi-insert's source is in the plan once per INSERT. */
    private static List relations(PlanWalk walk) {
        List relations = new ArrayList();
        Set seen = new HashSet();
        for (int i = 0; i < walk.mentions.size(); i++) {
            Map mention = ((Mention) walk.mentions.get(i)).json();
            if (mention.get("span") == null || seen.add(mention)) {
                relations.add(mention);
            }
        }
        return relations;
    }
}
