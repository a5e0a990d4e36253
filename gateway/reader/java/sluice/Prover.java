package sluice;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTVFAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.execution.command.ResetCommand;

/**
 * Proves that a rewritten text means its original with each splice applied, and nothing else.
 *
 * The plan of the original, with every spliced node replaced by the plan of what was spliced in (parsed by
 * itself), must be the plan of the rewritten text. That the text was spliced as told is the client's part.
 */
final class Prover {
    /** The proof does not hold; the message says why, without literals of the statement. */
    static final class Unproven extends Exception {
        Unproven(String message) {
            super(message);
        }
    }

    private final ParsedText original;
    private final PlanWalk walk;
    /** Node of the original → plan in its place. */
    private final IdentityHashMap plans = new IdentityHashMap();
    /** Node of the original → name parts in place of its own. */
    private final IdentityHashMap names = new IdentityHashMap();
    /** Node of the original that makes a view → key and value of a property that it gets beside its own. */
    private final IdentityHashMap properties = new IdentityHashMap();
    /** Node of the original that makes a function → what its body and its comment become, by the field's name. */
    private final IdentityHashMap fields = new IdentityHashMap();

    /** Action of a MERGE without a condition → the one that it gets. */
    private final IdentityHashMap conditions = new IdentityHashMap();
    /** Each MERGE with a condition that was restricted. */
    private final IdentityHashMap restricted = new IdentityHashMap();

    /** Nodes of the original, of the guards and of the rewritten text that refer to a CTE in scope there. */
    private final IdentityHashMap references = new IdentityHashMap();

    private Prover(ParsedText original) {
        this.original = original;
        this.walk = original.walk();
        noteReferences(walk);
    }

    /** Returns an empty string when the proof holds, else why not. */
    static String why(
        String original, String rewritten, List splices, List allowed, boolean expression) {
        try {
            ParsedText after = ParsedText.of(rewritten, expression);
            PlanWalk afterWalk = after.walk();
            checkRelations(afterWalk, allowed);
            RecentTexts texts = expression ? RecentTexts.EXPRESSIONS : RecentTexts.ORIGINALS;
            Prover prover = new Prover(texts.parsed(original));
            for (int i = 0; i < splices.size(); i++) {
                prover.apply((Map) splices.get(i));
            }
            prover.checkMerges();
            prover.noteReferences(afterWalk);
            prover.compare(after, afterWalk);
            return "";
        } catch (Unproven unproven) {
            return unproven.getMessage();
        } catch (CanonicalDump.Incomparable incomparable) {
            return incomparable.getMessage();
        }
    }

    /** Whether two texts are one statement, without splices. */
    static boolean same(ParsedText one, ParsedText other) {
        try {
            PlanWalk otherWalk = other.walk();
            Prover prover = new Prover(one);
            prover.noteReferences(otherWalk);
            prover.compare(other, otherWalk);
            return true;
        } catch (Unproven unproven) {
            return false;
        } catch (CanonicalDump.Incomparable incomparable) {
            return false;
        }
    }

    private static void checkRelations(PlanWalk after, List allowed) throws Unproven {
        Set names = new HashSet(allowed);
        for (int i = 0; i < after.mentions.size(); i++) {
            Mention mention = (Mention) after.mentions.get(i);
            if (!Mention.CTE.equals(mention.role) && !names.contains(mention.parts)) {
                throw new Unproven("the rewritten statement mentions " + quoted(mention.parts)
                    + ", which was not judged");
            }
        }
        Iterator each = after.nodes.iterator();
        while (each.hasNext()) {
            String node = (String) each.next();
            if (node.startsWith("?")) {
                throw new Unproven("the rewritten statement holds an unknown object " + node);
            }
        }
    }

    /** A relation that was none, or was the guard's own, must not become a reference to a user's CTE. */
    private void noteReferences(PlanWalk of) {
        for (int i = 0; i < of.mentions.size(); i++) {
            Mention mention = (Mention) of.mentions.get(i);
            if (Mention.CTE.equals(mention.role)) {
                references.put(mention.node, Boolean.TRUE);
            }
        }
    }

    private void apply(Map splice) throws Unproven {
        ParsedText.Span span = new ParsedText.Span(
            ((Number) splice.get("start")).intValue(), ((Number) splice.get("end")).intValue());
        String kind = (String) splice.get("kind");
        int applied;
        if ("guard".equals(kind)) {
            applied = guard(span, (String) splice.get("query"), (String) splice.get("alias"));
        } else if ("pin".equals(kind)) {
            applied = pin(span, (List) splice.get("parts"));
        } else if ("column".equals(kind)) {
            applied = column(span, (List) splice.get("parts"));
        } else if ("value".equals(kind)) {
            applied = value(span, (String) splice.get("query"));
        } else if ("measure".equals(kind)) {
            applied = measure(span, (String) splice.get("query"), (String) splice.get("alias"));
        } else if ("call".equals(kind)) {
            applied = call(span.start, (String) splice.get("query"), (String) splice.get("alias"),
                (List) splice.get("parts"));
        } else if ("title".equals(kind)) {
            applied = title((String) splice.get("query"), (String) splice.get("alias"), (List) splice.get("parts"));
        } else if ("property".equals(kind)) {
            applied = property((List) splice.get("parts"));
        } else if ("condition".equals(kind)) {
            applied = condition((String) splice.get("query"), (List) splice.get("parts"));
        } else if ("rows".equals(kind)) {
            applied = rows((String) splice.get("query"), (List) splice.get("parts"));
        } else if ("end".equals(kind)) {
            applied = 1; // Its beginning is another splice's, which says what stands here.
        } else if ("body".equals(kind) || "comment".equals(kind)) {
            applied = function(kind, (List) splice.get("parts"));
        } else if ("reset".equals(kind)) {
            applied = reset((List) splice.get("parts"));
        } else {
            throw new Unproven("a splice of kind `" + kind + "` is unknown");
        }
        if (applied == 0) {
            throw new Unproven("nothing in the original can take the splice (" + kind + ") at characters "
                + span.start + " to " + span.end);
        }
    }

    private int guard(ParsedText.Span span, String query, String alias) throws Unproven {
        ParsedText parsed = RecentTexts.GUARDS.parsed(query);
        LogicalPlan guarded = (LogicalPlan) parsed.root;
        PlanWalk guardWalk = parsed.walk();
        noteReferences(guardWalk);
        if (!guardWalk.markers.isEmpty()) {
            // The arguments are the user's, and their order is that of the user's text.
            throw new Unproven("a guarded relation must not hold parameter markers");
        }
        if (PlanWalk.isCommand(guarded)) {
            throw new Unproven("a guarded relation must be a query");
        }
        int applied = 0;
        // A multi-insert's source is in the plan once per INSERT, with the same expression ids.
        Map expressionIds = new java.util.HashMap();
        for (int i = 0; i < walk.mentions.size(); i++) {
            Mention mention = (Mention) walk.mentions.get(i);
            if (!mention.scan() || mention.form == null || !span.same(mention.form.whole)) {
                continue;
            }
            checkSuffix(mention, guarded);
            Object stands = guarded;
            if (WrittenForms.BARE.equals(mention.form.kind)) {
                if (alias == null || alias.length() == 0) {
                    throw new Unproven("a guarded relation without an alias of its own needs one");
                }
                stands = SubqueryAlias$.MODULE$.apply(alias, guarded);
            }
            plans.put(mention.replaced, new CanonicalDump.Standing(stands, expressionIds));
            applied++;
        }
        return applied;
    }

    /** A time-travel or options clause of the original must stand on the table that the guard reads. */
    private static void checkSuffix(Mention mention, LogicalPlan guarded) throws Unproven {
        UnresolvedRelation before = (UnresolvedRelation) mention.node;
        boolean travels = mention.replaced instanceof RelationTimeTravel;
        if (!travels && before.options().isEmpty()) {
            return;
        }
        LogicalPlan leaf = guarded;
        while (!leaf.children().isEmpty()) {
            leaf = (LogicalPlan) leaf.children().head();
        }
        Object read = leaf;
        if (travels) {
            if (!(leaf instanceof RelationTimeTravel)) {
                throw new Unproven("the guarded relation lost the time-travel clause");
            }
            RelationTimeTravel wanted = (RelationTimeTravel) mention.replaced;
            RelationTimeTravel got = (RelationTimeTravel) leaf;
            if (!CanonicalDump.of(wanted.timestamp()).equals(CanonicalDump.of(got.timestamp()))
                || !CanonicalDump.of(wanted.version()).equals(CanonicalDump.of(got.version()))) {
                throw new Unproven("the guarded relation reads another version");
            }
            read = got.relation();
        }
        if (!(read instanceof UnresolvedRelation)
            || !CanonicalDump.of(before.options()).equals(
                CanonicalDump.of(((UnresolvedRelation) read).options()))) {
            throw new Unproven("the guarded relation lost the options clause");
        }
    }

    private int pin(ParsedText.Span span, List parts) throws Unproven {
        requireParts(parts);
        int applied = 0;
        Iterator each = walk.nameSpans.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            if (span.same((ParsedText.Span) entry.getValue())) {
                if (!(entry.getKey() instanceof LogicalPlan)) {
                    throw new Unproven("the name at characters " + span.start + " to " + span.end
                        + " takes no qualified name");
                }
                names.put(entry.getKey(), parts);
                Object columns = walk.columnLists.get(entry.getKey());
                if (columns != null) {
                    names.put(columns, parts);
                }
                applied++;
            }
        }
        return applied;
    }

    private int column(ParsedText.Span span, List parts) throws Unproven {
        requireParts(parts);
        int applied = 0;
        Iterator each = walk.columnSpans.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            if (span.same((ParsedText.Span) entry.getValue())) {
                names.put(entry.getKey(), parts);
                applied++;
            }
        }
        return applied;
    }

    private int value(ParsedText.Span span, String query) throws Unproven {
        Object stands = ParsedText.expression(query).root;
        if (!Identities.isValue(stands)) {
            throw new Unproven("what stands for the user's name must be a string literal");
        }
        CanonicalDump.Standing standing = new CanonicalDump.Standing(stands, new java.util.HashMap());
        List nodes = walk.identities.at(span);
        for (int i = 0; i < nodes.size(); i++) {
            plans.put(nodes.get(i), standing);
        }
        return nodes.size();
    }

    /** MEASURE(m) becomes what the measure is: an expression over what stands for the metric view. */
    private int measure(ParsedText.Span span, String query, String alias) throws Unproven {
        ParsedText parsed = ParsedText.expression(query);
        PlanWalk within = parsed.walk();
        if (!within.mentions.isEmpty() || !within.markers.isEmpty()) {
            throw new Unproven("what stands for a measure must be an expression over columns");
        }
        boolean named = alias != null && alias.length() > 0;
        boolean isNamed = parsed.root instanceof Alias && ((Alias) parsed.root).name().equals(alias);
        if (named ? !isNamed : parsed.root instanceof Alias) {
            throw new Unproven("what stands for a measure must be called as the column is");
        }
        CanonicalDump.Standing standing = new CanonicalDump.Standing(parsed.root, new java.util.HashMap());
        List nodes = walk.measures.at(span, named);
        for (int i = 0; i < nodes.size(); i++) {
            plans.put(nodes.get(i), standing);
        }
        return nodes.size();
    }

    /**
     * A call of a function in SQL becomes the query that Spark would run for it, in which each argument stands
     * where its place is named. The splice begins where the function's name does.
     */
    private int call(int start, String query, String alias, List places) throws Unproven {
        int applied = 0;
        List nodes = calledAt(start);
        for (int i = 0; i < nodes.size(); i++) {
            boolean rows = nodes.get(i) instanceof UnresolvedTableValuedFunction;
            ParsedText parsed = rows ? ParsedText.of(query, false) : ParsedText.expression(query);
            PlanWalk within = parsed.walk();
            noteReferences(within);
            if (!within.markers.isEmpty() || (rows && PlanWalk.isCommand((LogicalPlan) parsed.root))) {
                throw new Unproven("what stands for a call must be a query without parameter markers");
            }
            List arguments = argumentsOf(nodes.get(i));
            if (arguments.size() != places.size()) {
                throw new Unproven("a call has other arguments than what stands for it");
            }
            for (int at = 0; at < arguments.size(); at++) {
                Object place = placeIn(within, places.get(at));
                if (place == null) {
                    throw new Unproven("an argument stands nowhere");
                }
                plans.put(place, CanonicalDump.Standing.moved(arguments.get(at)));
            }
            Object replaced = nodes.get(i);
            Object stands = parsed.root;
            boolean named = alias != null && alias.length() > 0;
            Object columns = walk.columnLists.get(replaced);
            if (columns != null) {
                if (named) {
                    throw new Unproven("a list of columns needs the alias that it has");
                }
                stands = new UnresolvedSubqueryColumnAliases(
                    ((UnresolvedTVFAliases) columns).outputNames(), (LogicalPlan) parsed.root);
                replaced = columns;
            } else if (rows && named) {
                stands = SubqueryAlias$.MODULE$.apply(alias, (LogicalPlan) parsed.root);
            } else if (!rows) {
                Object around = walk.measures.aliasAround(replaced);
                boolean isNamed = stands instanceof Alias && ((Alias) stands).name().equals(alias);
                if (named ? around == null || !isNamed : stands instanceof Alias) {
                    throw new Unproven("what stands for a call must be called as the column is");
                }
                replaced = named ? around : replaced;
            }
            plans.put(replaced, new CanonicalDump.Standing(stands, new java.util.HashMap()));
            applied++;
        }
        return applied;
    }

    /**
     * An item of a select list that has no alias gets one. The parts are where its expression stands, and what
     * stands for that in `query`.
     */
    private int title(String query, String alias, List parts) throws Unproven {
        if (parts == null || parts.size() != 3) {
            throw new Unproven("a splice that names a column needs its place");
        }
        ParsedText.Span item = new ParsedText.Span(
            Integer.parseInt((String) parts.get(0)), Integer.parseInt((String) parts.get(1)));
        Map found = walk.measures.aliasedAt(item);
        Iterator each = found.entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            ParsedText parsed = ParsedText.expression(query);
            Object place = placeIn(parsed.walk(), parts.get(2));
            boolean isNamed = parsed.root instanceof Alias && ((Alias) parsed.root).name().equals(alias)
                && ((Alias) parsed.root).child() == place;
            if (!isNamed) {
                throw new Unproven("a column that is named must stand there as it is");
            }
            plans.put(place, CanonicalDump.Standing.moved(entry.getKey()));
            plans.put(entry.getValue(), new CanonicalDump.Standing(parsed.root, new java.util.HashMap()));
        }
        return found.size();
    }

    /** The calls of functions whose name begins at a character. */
    private List calledAt(int start) {
        List found = new ArrayList();
        Map[] places = {walk.columnSpans, walk.nameSpans};
        for (int i = 0; i < places.length; i++) {
            Iterator each = places[i].entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry entry = (Map.Entry) each.next();
                boolean calls = entry.getKey() instanceof UnresolvedFunction
                    || entry.getKey() instanceof UnresolvedTableValuedFunction;
                if (calls && ((ParsedText.Span) entry.getValue()).start == start) {
                    found.add(entry.getKey());
                }
            }
        }
        return found;
    }

    /** The arguments of a call that has nothing else, without the names that they are given by. */
    private static List argumentsOf(Object call) throws Unproven {
        List given;
        if (call instanceof UnresolvedTableValuedFunction) {
            given = ScalaValues.list(((UnresolvedTableValuedFunction) call).functionArgs());
        } else {
            UnresolvedFunction function = (UnresolvedFunction) call;
            if (function.isDistinct() || function.filter().isDefined()) {
                throw new Unproven("a call has more than arguments");
            }
            given = ScalaValues.list(function.arguments());
        }
        List found = new ArrayList();
        for (int i = 0; i < given.size(); i++) {
            Object argument = given.get(i);
            boolean isNamed = "NamedArgumentExpression".equals(ScalaValues.name(argument));
            found.add(isNamed ? ((scala.Product) argument).productElement(1) : argument);
        }
        return found;
    }

    /** A persistent view gets one property, which must be new to it: the text must not have it twice. */
    private int property(List pair) throws Unproven {
        if (pair == null || pair.size() != 2 || !properties.isEmpty()) {
            throw new Unproven("a splice that adds a property needs one key and one value");
        }
        int applied = 0;
        for (int i = 0; i < walk.commands.size(); i++) {
            Object command = walk.commands.get(i);
            if (command instanceof org.apache.spark.sql.catalyst.plans.logical.CreateView
                || "CreateMetricView".equals(ScalaValues.name(command))) {
                properties.put(command, pair);
                applied++;
            }
        }
        return applied;
    }

    /**
     * A condition of UPDATE, DELETE or MERGE becomes the one of `query`, in which it stands where the place is
     * named. Of a MERGE the place is followed by a number: 0 for ON, then its actions, as Spark lists them.
     */
    private int condition(String query, List parts) throws Unproven {
        requireParts(parts);
        ParsedText parsed = ParsedText.expression(query);
        PlanWalk within = parsed.walk();
        noteReferences(within);
        if (!within.markers.isEmpty()) {
            throw new Unproven("what stands around a condition must not hold parameter markers");
        }
        Object place = placeIn(within, parts.get(0));
        int applied = 0;
        for (int i = 0; i < walk.commands.size(); i++) {
            Object command = walk.commands.get(i);
            Object own = null;
            if (parts.size() == 2 && command instanceof MergeIntoTable) {
                MergeIntoTable merge = (MergeIntoTable) command;
                restricted.put(merge, Boolean.TRUE);
                int at = Integer.parseInt((String) parts.get(1));
                if (at > 0) {
                    Object action = actionsOf(merge).get(at - 1);
                    own = ScalaValues.elements((scala.Product) action).get(0);
                    own = ((scala.Option) own).isDefined() ? ((scala.Option) own).get() : null;
                    if (own == null && place == null) {
                        conditions.put(action, parsed.root);
                        applied++;
                        continue;
                    }
                } else {
                    own = merge.mergeCondition();
                }
            } else if (parts.size() == 1 && command instanceof DeleteFromTable) {
                own = ((DeleteFromTable) command).condition();
            } else if (parts.size() == 1 && command instanceof UpdateTable
                && ((UpdateTable) command).condition().isDefined()) {
                own = ((UpdateTable) command).condition().get();
            }
            if (own != null) {
                if (place == null) {
                    throw new Unproven("a condition stands nowhere");
                }
                plans.put(own, new CanonicalDump.Standing(parsed.root, new java.util.HashMap()));
                plans.put(place, CanonicalDump.Standing.itself(own));
                applied++;
            }
        }
        return applied;
    }

    /** The query of an INSERT becomes the one of `query`, in which it stands where the place is named. */
    private int rows(String query, List parts) throws Unproven {
        requireParts(parts);
        ParsedText parsed = RecentTexts.GUARDS.parsed(query);
        PlanWalk within = parsed.walk();
        noteReferences(within);
        if (!within.markers.isEmpty() || PlanWalk.isCommand((LogicalPlan) parsed.root)) {
            throw new Unproven("what stands around rows must be a query without parameter markers");
        }
        Object place = null;
        for (int i = 0; i < within.mentions.size(); i++) {
            Mention mention = (Mention) within.mentions.get(i);
            if (mention.parts.equals(parts)) {
                if (place != null) {
                    throw new Unproven("rows stand in two places");
                }
                place = mention.replaced;
            }
        }
        int applied = 0;
        for (int i = 0; i < walk.commands.size(); i++) {
            Object command = walk.commands.get(i);
            if (command instanceof InsertIntoStatement && place != null) {
                Object own = ((InsertIntoStatement) command).query();
                plans.put(own, new CanonicalDump.Standing(parsed.root, new java.util.HashMap()));
                plans.put(place, CanonicalDump.Standing.itself(own));
                applied++;
            }
        }
        if (applied > 1) {
            throw new Unproven("the rows of several INSERTs cannot be checked");
        }
        return applied;
    }

    /** The one column of an expression that stands for another expression, or null. */
    private static Object placeIn(PlanWalk within, Object name) throws Unproven {
        java.util.Iterator each = within.columnSpans.keySet().iterator();
        Object place = null;
        while (each.hasNext()) {
            Object column = each.next();
            if (column instanceof UnresolvedAttribute) {
                List named = ScalaValues.strings(((UnresolvedAttribute) column).nameParts());
                if (named.size() == 1 && named.get(0).equals(name)) {
                    if (place != null) {
                        throw new Unproven("a condition stands in two places");
                    }
                    place = column;
                }
            }
        }
        return place;
    }

    private static List actionsOf(MergeIntoTable merge) {
        List actions = new ArrayList(ScalaValues.list(merge.matchedActions()));
        actions.addAll(ScalaValues.list(merge.notMatchedActions()));
        actions.addAll(ScalaValues.list(merge.notMatchedBySourceActions()));
        return actions;
    }

    /** A MERGE whose ON was told apart from hidden rows changes none of them as not matched by its source. */
    private void checkMerges() throws Unproven {
        java.util.Iterator each = restricted.keySet().iterator();
        while (each.hasNext()) {
            MergeIntoTable merge = (MergeIntoTable) each.next();
            List actions = ScalaValues.list(merge.notMatchedBySourceActions());
            for (int i = 0; i < actions.size(); i++) {
                Object own = ScalaValues.elements((scala.Product) actions.get(i)).get(0);
                boolean around = ((scala.Option) own).isDefined() && plans.containsKey(((scala.Option) own).get());
                if (!around && !conditions.containsKey(actions.get(i))) {
                    throw new Unproven("an action on rows that the source does not have is on hidden ones too");
                }
            }
            if (!plans.containsKey(merge.mergeCondition())) {
                throw new Unproven("the condition of MERGE is on hidden rows too");
            }
        }
    }

    /** A function in SQL gets another text for its body, or another comment. */
    private int function(String kind, List parts) throws Unproven {
        if (parts == null || parts.size() != 1) {
            throw new Unproven("a splice into a function needs one text");
        }
        int applied = 0;
        for (int i = 0; i < walk.commands.size(); i++) {
            Object command = walk.commands.get(i);
            boolean makes = "CreateUserDefinedFunction".equals(ScalaValues.name(command))
                || "CreateSQLFunctionCommand".equals(ScalaValues.name(command));
            if (!makes) {
                continue;
            }
            Map told = (Map) fields.get(command);
            if (told == null) {
                told = new LinkedHashMap();
                fields.put(command, told);
            }
            told.put(kind, parts.get(0));
            applied++;
        }
        return applied;
    }

    /** A RESET of all settings becomes one of a single key. */
    private int reset(List parts) throws Unproven {
        requireParts(parts);
        int applied = 0;
        for (int i = 0; i < walk.commands.size(); i++) {
            Object command = walk.commands.get(i);
            if (command instanceof ResetCommand && ((ResetCommand) command).config().isEmpty()) {
                Object stands = new ResetCommand(scala.Option$.MODULE$.apply(parts.get(0)));
                plans.put(command, new CanonicalDump.Standing(stands, new java.util.HashMap()));
                applied++;
            }
        }
        return applied;
    }

    private static void requireParts(List parts) throws Unproven {
        if (parts == null || parts.isEmpty()) {
            throw new Unproven("a splice that renames needs name parts");
        }
    }

    private void compare(ParsedText after, PlanWalk afterWalk) throws Unproven {
        CanonicalDump dump = new CanonicalDump(plans, names, references);
        dump.markers = walk.markers;
        dump.properties = properties;
        dump.fields = fields;
        dump.conditions = conditions;
        String expected = CanonicalDump.of(original.root, dump);
        if (dump.met.size() != plans.size() + names.size() + properties.size() + fields.size()
            + conditions.size()) {
            throw new Unproven("a splice lies inside another one");
        }
        CanonicalDump dumpAfter = new CanonicalDump(new IdentityHashMap(), new IdentityHashMap(), references);
        dumpAfter.markers = afterWalk.markers;
        String actual = CanonicalDump.of(after.root, dumpAfter);
        if (!expected.equals(actual)) {
            throw new Unproven("the rewritten statement is another plan (at " + differsAt(expected, actual) + ")");
        }
    }

    /** The class of the innermost node in which two plans begin to differ. */
    private static String differsAt(String expected, String actual) {
        int at = 0;
        int shortest = Math.min(expected.length(), actual.length());
        while (at < shortest && expected.charAt(at) == actual.charAt(at)) {
            at++;
        }
        int open = expected.lastIndexOf('(', Math.max(0, at - 1));
        int name = open;
        while (name > 0 && Character.isJavaIdentifierPart(expected.charAt(name - 1))) {
            name--;
        }
        return open < 0 ? "its root" : expected.substring(name, open);
    }

    /** A name as SQL, each part in backticks. */
    static String quoted(List parts) {
        StringBuilder name = new StringBuilder();
        for (int i = 0; i < parts.size(); i++) {
            name.append(i == 0 ? "`" : ".`").append(((String) parts.get(i)).replace("`", "``")).append('`');
        }
        return name.toString();
    }

    static Map json(String why) {
        Map told = new LinkedHashMap();
        told.put("holds", Boolean.valueOf(why.length() == 0));
        told.put("why", why);
        return told;
    }
}
