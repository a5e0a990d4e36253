package sluice;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.Star;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunctionName;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRegex;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTVFAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedView;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Visits every element of every node of a plan: children, fields, collections, plans inside expressions.
 *
 * Spark's own traversals see only `children`; an INSERT's target, the relation under a time travel and a
 * subquery's plan are not among them. Nothing is skipped: an object of a kind that is not known here is
 * reported among the nodes with a question mark, and a plan that is too deep overflows the stack, which the
 * caller answers as too deep.
 */
final class PlanWalk {
    /** Fields of commands that hold what is read. Every other relation of a command is what it works on. */
    private static final Set SOURCE_FIELDS = new HashSet();
    /** Classes that act like commands without being Spark's `Command`. */
    private static final Set ACTING = new HashSet();
    /** Fields with the text of a column's DEFAULT, empty for DROP DEFAULT, or with the schema that has it; later
     *  Sparks have an expression there. */
    private static final Set DEFAULTS = new HashSet();
    private static final Set KEEPING_DEFAULTS = new HashSet();

    static {
        Collections.addAll(SOURCE_FIELDS, new Object[] {
            "query", "sourceQuery", "sourceTable", "plan", "logicalPlan", "flowOperation",
            "InsertIntoDir.child", "ScriptTransformation.child",
        });
        Collections.addAll(ACTING, new Object[] {
            "InsertIntoDir", "ScriptTransformation", "CompoundBody", "UnresolvedExecuteImmediate", "Call",
            "AutoCdcInto",
        });
        Collections.addAll(DEFAULTS, new Object[] {
            "QualifiedColType.default", "AlterColumn.setDefaultExpression",
            "AlterColumnSpec.newDefaultExpression", "CreateTable.tableSchema", "ReplaceTable.tableSchema",
        });
        Collections.addAll(KEEPING_DEFAULTS, new Object[] {
            "QualifiedColType", "AlterColumn", "AlterColumnSpec", "CreateTable", "ReplaceTable",
        });
    }

    final Set nodes = new TreeSet();
    final Set expressions = new TreeSet();
    final Set aliases = new TreeSet();
    final List mentions = new ArrayList();
    final List commands = new ArrayList();
    final List functions = new ArrayList();
    private final Set called = new HashSet();
    /** Every call of a function, with the place of its name. */
    final List calls = new ArrayList();
    final List columns = new ArrayList();
    /** Parameter markers, and places that ask who the user is. */
    final Markers markers;
    final Identities identities;
    final Measures measures;
    /** Column or star node → its span, for the nodes that have one. */
    final IdentityHashMap columnSpans = new IdentityHashMap();

    /** Name node (relation, namespace, function, procedure) → its span, for the nodes that have one. */
    final IdentityHashMap nameSpans = new IdentityHashMap();
    /** Calls of table functions with a list of columns beside their alias: what holds that list. */
    final IdentityHashMap columnLists = new IdentityHashMap();

    private final ParsedText parsed;
    /** Name nodes of other things than relations: they are fields of commands, but can be pinned. */
    private final List otherNames = new ArrayList();
    private final IdentityHashMap visited = new IdentityHashMap();
    private final Set columnsSeen = new HashSet();

    PlanWalk(ParsedText parsed) {
        this.parsed = parsed;
        this.markers = new Markers(parsed);
        this.identities = new Identities(parsed);
        this.measures = new Measures(parsed);
        visit(parsed.root, CteScope.EMPTY, false, "");
        placeNames();
    }

    static boolean isCommand(Object node) {
        return node instanceof Command
            || node instanceof ParsedStatement
            || ACTING.contains(ScalaValues.name(node))
            || (node instanceof LogicalPlan && Extensions.brought(node));
    }

    private void visit(Object value, CteScope scope, boolean target, String holder) {
        if (ScalaValues.isLeaf(value)) {
            return;
        }
        if (value instanceof LogicalPlan) {
            visitPlan((LogicalPlan) value, scope, target, holder);
        } else if (value instanceof Expression) {
            visitExpression((Expression) value, scope, holder);
        } else if (value instanceof TableIdentifier) {
            noteIdentifier((TableIdentifier) value, holder);
        } else if (value instanceof scala.collection.Map) {
            visitAll(ScalaValues.list(((scala.collection.Map) value).toSeq()), scope, target, holder);
        } else if (value instanceof scala.Option) {
            if (((scala.Option) value).isDefined()) {
                visit(((scala.Option) value).get(), scope, target, holder);
            }
        } else if (value instanceof scala.collection.Iterable) {
            visitAll(ScalaValues.list((scala.collection.Iterable) value), scope, target, holder);
        } else if (value instanceof Object[]) {
            Object[] all = (Object[]) value;
            for (int i = 0; i < all.length; i++) {
                visit(all[i], scope, target, holder);
            }
        } else if (value instanceof Map) {
            visitAll(((Map) value).keySet(), scope, target, holder);
            visitAll(((Map) value).values(), scope, target, holder);
        } else if (value instanceof Collection) {
            visitAll((Collection) value, scope, target, holder);
        } else if (value instanceof scala.Product) {
            visitAll(ScalaValues.elements((scala.Product) value), scope, target, holder);
            visitDefault((scala.Product) value, holder);
        } else {
            boolean closure = value instanceof scala.Function1 || value instanceof scala.Function2;
            nodes.add(closure ? "?Function" : "?" + ScalaValues.name(value));
        }
    }

    private void visitAll(Collection values, CteScope scope, boolean target, String holder) {
        java.util.Iterator each = values.iterator();
        while (each.hasNext()) {
            visit(each.next(), scope, target, holder);
        }
    }

    private void visitPlan(LogicalPlan plan, CteScope scope, boolean target, String holder) {
        LogicalPlan around = identities.operator;
        CteScope before = identities.scope;
        identities.operator = plan;
        identities.scope = scope;
        visitOperator(plan, scope, target, holder);
        identities.operator = around;
        identities.scope = before;
    }

    private void visitOperator(LogicalPlan plan, CteScope scope, boolean target, String holder) {
        nodes.add(ScalaValues.name(plan));
        visited.put(plan, Boolean.TRUE);
        if (plan instanceof UnresolvedRelation) {
            noteRelation((UnresolvedRelation) plan, plan, scope, target, holder);
            return;
        }
        if (plan instanceof UnresolvedWith) {
            visitWith((UnresolvedWith) plan, scope, holder);
            return;
        }
        if (plan instanceof RelationTimeTravel) {
            RelationTimeTravel travel = (RelationTimeTravel) plan;
            if (travel.relation() instanceof UnresolvedRelation) {
                nodes.add(ScalaValues.name(travel.relation()));
                // Never a CTE reference: Spark has no history of one, so the name can only be a table's.
                noteRelation((UnresolvedRelation) travel.relation(), plan, CteScope.EMPTY, target, holder);
            } else {
                visit(travel.relation(), scope, target, holder);
            }
            visit(travel.timestamp(), scope, false, "");
            return;
        }
        if (plan instanceof UnresolvedTable || plan instanceof UnresolvedTableOrView
            || plan instanceof UnresolvedView || plan instanceof UnresolvedIdentifier) {
            List parts = ScalaValues.strings(plan.productElement(0));
            mentions.add(new Mention(plan, plan, parts, Mention.TARGET, holder));
        } else if (plan instanceof UnresolvedTableValuedFunction) {
            UnresolvedTableValuedFunction function = (UnresolvedTableValuedFunction) plan;
            List parts = ScalaValues.strings(function.name());
            noteFunction(plan, parts, true, ToldArguments.of(parts, function.functionArgs()));
        } else if (plan instanceof UnresolvedTVFAliases) {
            columnLists.put(((UnresolvedTVFAliases) plan).child(), plan);
        } else if (plan instanceof SubqueryAlias) {
            aliases.add(((SubqueryAlias) plan).identifier().name().toLowerCase(Locale.ROOT));
        } else if (plan instanceof Generate && ((Generate) plan).qualifier().isDefined()) {
            aliases.add(((String) ((Generate) plan).qualifier().get()).toLowerCase(Locale.ROOT));
        }
        if (plan instanceof UnresolvedNamespace || plan instanceof UnresolvedFunctionName
            || ScalaValues.name(plan).equals("UnresolvedProcedure")) {
            otherNames.add(plan);
        }
        if (Extensions.brought(plan)) {
            noteOwnName(plan);
        }
        boolean command = isCommand(plan);
        if (command) {
            commands.add(plan);
        }
        String name = ScalaValues.name(plan);
        // An alias stands between UPDATE and its target, and the search for offending rows between ADD CHECK
        // and its table; nothing else passes "this is the target" on.
        boolean passes = plan instanceof SubqueryAlias || plan instanceof UnresolvedSubqueryColumnAliases
            || (plan instanceof Filter && holder.equals("AddCheckConstraint"));
        for (int i = 0; i < plan.productArity(); i++) {
            boolean works = command && !isSource(name, ScalaValues.elementName(plan, i));
            visit(plan.productElement(i), scope, works || (passes && target), command ? name : holder);
        }
        visitDefault(plan, holder);
        visitRest(plan, scope, command ? name : holder);
    }

    /** The DEFAULT of a column, where the parser keeps it as a text that Spark parses later: before 4.1. */
    private void visitDefault(scala.Product in, String holder) {
        String name = ScalaValues.name(in);
        for (int i = 0; KEEPING_DEFAULTS.contains(name) && i < in.productArity(); i++) {
            if (!DEFAULTS.contains(name + "." + ScalaValues.elementName(in, i))) {
                continue;
            }
            Object held = in.productElement(i);
            if (held instanceof StructType) {
                visitSchema((StructType) held, holder);
            } else if (held instanceof scala.Option && ((scala.Option) held).isDefined()) {
                visitText(((scala.Option) held).get(), holder);
            }
        }
    }

    /** The same in the columns of 3.5's CREATE TABLE. What else is kept with a column is not known. */
    private void visitSchema(StructType schema, String holder) {
        StructField[] columns = schema.fields();
        for (int i = 0; i < columns.length; i++) {
            Metadata kept = columns[i].metadata();
            java.util.Iterator keys = ScalaValues.list(kept.map().keys()).iterator();
            while (keys.hasNext()) {
                String key = (String) keys.next();
                if (key.equals("CURRENT_DEFAULT") || key.equals("EXISTS_DEFAULT")) {
                    visitText(kept.getString(key), holder);
                } else if (key.equals("GENERATION_EXPRESSION")) {
                    nodes.add("GeneratedColumn");
                } else if (!key.equals("comment") && !key.equals("__CHAR_VARCHAR_TYPE_STRING")) {
                    nodes.add("?" + key);
                }
            }
        }
    }

    private void visitText(Object text, String holder) {
        if (text instanceof String && ((String) text).length() > 0) {
            Object parsed = CatalystSqlParser$.MODULE$.parseExpression((String) text);
            visit(parsed, CteScope.EMPTY, false, holder);
        }
    }

    private static boolean isSource(String command, String field) {
        return SOURCE_FIELDS.contains(field) || SOURCE_FIELDS.contains(command + "." + field);
    }

    /** What a node carries outside its product: second parameter lists and children that are computed. */
    private void visitRest(TreeNode node, CteScope scope, String holder) {
        scala.collection.Seq more = node.otherCopyArgs();
        if (!more.isEmpty()) {
            visitAll(ScalaValues.list(more), scope, false, holder);
        }
        scala.collection.Iterator children = node.children().iterator();
        while (children.hasNext()) {
            Object child = children.next();
            if (!visited.containsKey(child)) {
                visit(child, scope, false, holder);
            }
        }
    }

    private void visitWith(UnresolvedWith with, CteScope outer, String holder) {
        CteScope scope = outer;
        List relations = ScalaValues.list(with.cteRelations());
        boolean recursive = Boolean.TRUE.equals(ScalaValues.callOr(with, "allowRecursion", Boolean.FALSE));
        for (int i = 0; i < relations.size(); i++) {
            scala.Product relation = (scala.Product) relations.get(i);
            String name = (String) relation.productElement(0);
            LogicalPlan query = recursive ? null : (LogicalPlan) relation.productElement(1);
            CteScope inside = recursive ? scope.with(name, null) : scope;
            aliases.add(name.toLowerCase(Locale.ROOT));
            visit(relation.productElement(1), inside, false, holder);
            scope = scope.with(name, query);
        }
        visit(with.child(), scope, false, holder);
    }

    private void visitExpression(Expression expression, CteScope scope, String holder) {
        expressions.add(ScalaValues.name(expression));
        visited.put(expression, Boolean.TRUE);
        markers.note(expression);
        identities.note(expression);
        measures.note(expression);
        if (expression instanceof UnresolvedAttribute) {
            noteColumn(expression, ScalaValues.strings(((UnresolvedAttribute) expression).nameParts()), false);
        } else if (expression instanceof Star) {
            noteColumn(expression, starQualifier(expression), true);
        } else if (expression instanceof UnresolvedFunction) {
            UnresolvedFunction function = (UnresolvedFunction) expression;
            List parts = ScalaValues.strings(function.nameParts());
            noteFunction(expression, parts, false, ToldArguments.of(parts, function.arguments()));
        } else if (expression instanceof UnresolvedGenerator) {
            noteFunction(expression, 
                identifierParts(((UnresolvedGenerator) expression).name()), false, ToldArguments.NONE);
        }
        int arity = expression.productArity();
        for (int i = 0; i < arity; i++) {
            visit(expression.productElement(i), scope, false, holder);
        }
        visitDefault(expression, holder);
        visitRest(expression, scope, holder);
    }

    private void noteRelation(
        UnresolvedRelation relation, Object replaced, CteScope scope, boolean target, String holder) {
        visited.put(relation, Boolean.TRUE);
        List parts = ScalaValues.strings(relation.multipartIdentifier());
        String role = Mention.SCAN;
        if (target) {
            role = Mention.TARGET;
        } else if (parts.size() == 1 && !relation.isStreaming() && scope.has((String) parts.get(0))) {
            role = Mention.CTE;
        }
        mentions.add(new Mention(relation, replaced, parts, role, target ? holder : ""));
    }

    private void noteIdentifier(TableIdentifier identifier, String holder) {
        mentions.add(
            new Mention(identifier, identifier, identifierParts(identifier), Mention.TARGET, holder));
    }

    /** Statements of extensions hold a name as its parts: that of a table, or of a procedure. */
    private void noteOwnName(LogicalPlan plan) {
        Object first = plan.productArity() == 0 ? null : plan.productElement(0);
        if (!(first instanceof scala.collection.Seq) || ((scala.collection.Seq) first).isEmpty()) {
            return;
        }
        String field = ScalaValues.elementName(plan, 0);
        if (field.equals("table")) {
            mentions.add(
                new Mention(plan, plan, ScalaValues.strings(first), Mention.TARGET, ScalaValues.name(plan)));
        } else if (field.equals("name")) {
            otherNames.add(plan);
        }
    }

    private void noteFunction(Object node, List parts, boolean tableValued, List arguments) {
        Map function = new LinkedHashMap();
        function.put("parts", parts);
        function.put("table_valued", Boolean.valueOf(tableValued));
        function.put("arguments", arguments);
        ParsedText.Span span = parsed.originOf(node);
        ParsedText.Span name = span == null ? null : parsed.forms().functionName(span, parts);
        Map call = new LinkedHashMap();
        call.put("parts", parts);
        call.put("table_valued", Boolean.valueOf(tableValued));
        call.put("span", name == null ? null : name.json());
        calls.add(call);
        if (name != null && tableValued) {
            nameSpans.put(node, name);
        } else if (name != null) {
            columnSpans.put(node, name);
        }
        if (called.add(function)) {
            Map told = new LinkedHashMap(function);
            told.put("start", span == null ? null : Integer.valueOf(span.start));
            functions.add(told);
        }
    }

    private void noteColumn(Expression node, List parts, boolean star) {
        ParsedText.Span span = parsed.originOf(node);
        if (span != null) {
            if (star) {
                span = parsed.forms().starAt(span);
            } else if (!parsed.forms().isName(span, parts)) {
                span = null;
            }
        }
        if (span != null) {
            columnSpans.put(node, span);
        }
        Map column = new LinkedHashMap();
        column.put("parts", parts);
        column.put("span", span == null ? null : span.json());
        column.put("star", Boolean.valueOf(star));
        if (columnsSeen.add(column)) {
            columns.add(column);
        }
    }

    static List starQualifier(Expression star) {
        if (star instanceof UnresolvedRegex) {
            return ScalaValues.list(((UnresolvedRegex) star).table().toList());
        }
        Object target = star.productArity() == 0 ? null : star.productElement(0);
        if (target instanceof scala.Option && ((scala.Option) target).isDefined()) {
            return ScalaValues.strings(((scala.Option) target).get());
        }
        return new ArrayList();
    }

    /** Catalog, database and own name of one of Spark's older identifiers. */
    static List identifierParts(org.apache.spark.sql.catalyst.CatalystIdentifier identifier) {
        ArrayList parts = new ArrayList();
        if (identifier.catalog().isDefined()) {
            parts.add(identifier.catalog().get());
        }
        if (identifier.database().isDefined()) {
            parts.add(identifier.database().get());
        }
        parts.add(identifier.identifier());
        return parts;
    }

    /** Finds where each mention is written: first those whose node knows, then the rest. */
    private void placeNames() {
        List claimed = new ArrayList();
        for (int i = 0; i < mentions.size(); i++) {
            Mention mention = (Mention) mentions.get(i);
            ParsedText.Span origin = origin(mention);
            if (origin != null && parsed.forms().isName(origin, mention.parts)) {
                mention.span = origin;
                mention.form = mention.scan() ? parsed.forms().formAt(origin) : null;
                if (!mention.scan()) {
                    claimed.add(origin);
                }
            }
        }
        for (int i = 0; i < mentions.size(); i++) {
            Mention mention = (Mention) mentions.get(i);
            if (mention.span == null && (Mention.TARGET.equals(mention.role) || Extensions.brought(parsed.root))) {
                mention.span = parsed.forms().statementName(origin(mention), mention.parts, claimed);
            }
            if (mention.span != null) {
                nameSpans.put(mention.node, mention.span);
            }
        }
        for (int i = 0; i < otherNames.size(); i++) {
            LogicalPlan node = (LogicalPlan) otherNames.get(i);
            List parts = ScalaValues.strings(node.productElement(0));
            ParsedText.Span origin = parsed.originOf(node);
            ParsedText.Span span = origin != null && parsed.forms().isName(origin, parts)
                ? origin : parsed.forms().statementName(origin, parts, claimed);
            if (span != null) {
                nameSpans.put(node, span);
            }
        }
    }

    private ParsedText.Span origin(Mention mention) {
        return mention.node instanceof TreeNode ? parsed.originOf(mention.node) : null;
    }
}
