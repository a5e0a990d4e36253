package sluice;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.MultiAlias;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.Star;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedOrdinal;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTVFAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.UnresolvedWindowExpression;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.NaturalJoin;
import org.apache.spark.sql.catalyst.plans.UsingJoin;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LateralJoin;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Pivot;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.Unpivot;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.WithWindowDefinition;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * An expression as a tree of plain values, with the plans of its subqueries, for whoever asks for its types;
 * and a statement's plan, with the expressions in it, for whoever asks what its conditions are about.
 *
 * What is deep or large has no tree, but for whoever asks for a larger one.
 */
final class ExpressionTree {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List NONE = new ArrayList();
    private static final int MAX_NODES = 8000;
    private static final int MAX_LEVELS = 100;
    /** Of a tree that is asked for by itself: some 40 MB here, and 5 MB as JSON. */
    private static final int MAX_LARGE_NODES = 50000;
    /** JSON's writer takes 1,000, and each level is two of them. */
    private static final int MAX_LARGE_LEVELS = 450;

    private final ParsedText parsed;
    /** Name node → its span; empty within an expression, where nobody asks. */
    private final Map spans;
    /** Column or star node → its span. */
    private final Map columns;
    private final int maxNodes;
    private final int maxLevels;
    private int nodes;

    private ExpressionTree(ParsedText parsed, PlanWalk walk, boolean large) {
        this.parsed = parsed;
        this.maxNodes = large ? MAX_LARGE_NODES : MAX_NODES;
        this.maxLevels = large ? MAX_LARGE_LEVELS : MAX_LEVELS;
        this.spans = walk.nameSpans;
        this.columns = walk.columnSpans;
    }

    /** The tree of a text as JSON, or null for one that is too large. As text it costs who does not look at it
     *  next to nothing. */
    static String of(ParsedText parsed, PlanWalk walk, boolean large) {
        ExpressionTree tree = new ExpressionTree(parsed, walk, large);
        Map told = parsed.root instanceof Expression
            ? tree.expression((Expression) parsed.root, 0) : tree.plan((LogicalPlan) parsed.root, 0);
        try {
            return tree.nodes > tree.maxNodes ? null : JSON.writeValueAsString(told);
        } catch (JsonProcessingException never) {
            throw new IllegalStateException(never);
        }
    }

    private Map expression(Expression expression, int level) {
        if (full(level)) {
            return null;
        }
        Map told = node(expression, expressions(expression.children(), level), NONE);
        ParsedText.Span span = expression instanceof Star
            ? (ParsedText.Span) columns.get(expression) : parsed.originOf(expression);
        if (span != null) {
            told.put("span", span.json());
        }
        if (expression instanceof Literal) {
            told.put("type", ((Literal) expression).dataType().simpleString());
            Object value = ((Literal) expression).value();
            told.put("value", value == null ? null : value.toString());
        } else if (expression instanceof Like) {
            told.put("mode", String.valueOf(((Like) expression).escapeChar()));
        } else if (expression instanceof Alias) {
            List name = new ArrayList();
            name.add(((Alias) expression).name());
            told.put("parts", name);
        } else if (expression instanceof Cast) {
            told.put("type", ((Cast) expression).dataType().simpleString());
            told.put("mode", ((Cast) expression).evalMode().toString());
        } else if (expression instanceof UnresolvedAttribute) {
            told.put("parts", ScalaValues.strings(((UnresolvedAttribute) expression).nameParts()));
        } else if (expression instanceof UnresolvedNamedLambdaVariable) {
            told.put("parts",
                ScalaValues.strings(((UnresolvedNamedLambdaVariable) expression).nameParts()));
        } else if (expression instanceof UnresolvedGenerator) {
            told.put("parts", PlanWalk.identifierParts(((UnresolvedGenerator) expression).name()));
        } else if (expression instanceof UnresolvedOrdinal) {
            told.put("type", "int");
            told.put("value", String.valueOf(((UnresolvedOrdinal) expression).ordinal()));
        } else if (ScalaValues.name(expression).equals("UnresolvedPipeAggregateOrdinal")) {
            told.put("value", String.valueOf(((scala.Product) expression).productElement(0)));
        } else if (expression instanceof Star) {
            Object given = ScalaValues.callOr(expression, "colNames", null);
            told.put("parts", given == null ? PlanWalk.starQualifier(expression) : ScalaValues.strings(given));
            starred(expression, told, level);
        } else if (ScalaValues.name(expression).equals("NamedArgumentExpression")) {
            List name = new ArrayList();
            name.add(((scala.Product) expression).productElement(0));
            told.put("parts", name);
        } else if (expression instanceof MultiAlias) {
            told.put("parts", ScalaValues.strings(((MultiAlias) expression).names()));
        } else if (expression instanceof UnresolvedWindowExpression) {
            List name = new ArrayList();
            name.add(((UnresolvedWindowExpression) expression).windowSpec().name());
            told.put("parts", name);
        } else if (expression instanceof UnresolvedFunction) {
            UnresolvedFunction function = (UnresolvedFunction) expression;
            told.put("parts", ScalaValues.strings(function.nameParts()));
            if (Measures.isMeasure(function)) {
                told.put("mode", function.isDistinct() ? "DISTINCT" : "");
            }
            if (function.filter().isDefined()) {
                told.put("value", String.valueOf(function.arguments().size()));
            }
        } else if (expression instanceof SubqueryExpression) {
            List plans = new ArrayList();
            plans.add(plan((LogicalPlan) ((SubqueryExpression) expression).plan(), level + 1));
            told.put("plans", plans);
        }
        return told;
    }

    /** What a star leaves out, of Sparks that know it, and what it has in their places, if it has something. */
    private void starred(Expression star, Map told, int level) {
        Object excepts = ScalaValues.callOr(star, "excepts", null);
        if (excepts == null) {
            return;
        }
        List without = new ArrayList();
        List all = ScalaValues.list((scala.collection.Iterable) excepts);
        for (int i = 0; i < all.size(); i++) {
            without.add(ScalaValues.strings(all.get(i)));
        }
        told.put("without", without);
        Object replaced = ScalaValues.callOr(star, "replacements", null);
        if (replaced instanceof scala.Option && ((scala.Option) replaced).isDefined()) {
            told.put("children", expressions(((scala.Option) replaced).get(), level));
        }
    }

    private Map plan(LogicalPlan plan, int level) {
        if (full(level)) {
            return null;
        }
        List plans = new ArrayList();
        List names = new ArrayList();
        List inputs = plan instanceof Union ? branches((Union) plan) : ScalaValues.list(plan.children());
        for (int i = 0; i < inputs.size(); i++) {
            plans.add(plan((LogicalPlan) inputs.get(i), level + 1));
        }
        if (plan instanceof RelationTimeTravel) {
            plans.add(plan(((RelationTimeTravel) plan).relation(), level + 1));
        } else if (plan instanceof UnresolvedWith) {
            List relations = ScalaValues.list(((UnresolvedWith) plan).cteRelations());
            for (int i = 0; i < relations.size(); i++) {
                scala.Product relation = (scala.Product) relations.get(i);
                names.add(relation.productElement(0));
                plans.add(plan((LogicalPlan) relation.productElement(1), level + 1));
            }
        }
        List expressions = expressions(plan.expressions(), level);
        if (plan instanceof WithWindowDefinition) {
            List windows = ScalaValues.list(((WithWindowDefinition) plan).windowDefinitions().toSeq());
            for (int i = 0; i < windows.size(); i++) {
                names.add(((scala.Tuple2) windows.get(i))._1());
                expressions.add(expression((Expression) ((scala.Tuple2) windows.get(i))._2(), level + 1));
            }
        }
        Map told = node(plan, expressions, plans);
        if (plan instanceof UnresolvedRelation) {
            names = ScalaValues.strings(((UnresolvedRelation) plan).multipartIdentifier());
            ParsedText.Span span = (ParsedText.Span) spans.get(plan);
            told.put("span", span == null ? null : span.json());
        } else if (plan instanceof SubqueryAlias) {
            names.add(((SubqueryAlias) plan).identifier().name());
        } else if (plan instanceof UnresolvedSubqueryColumnAliases) {
            names = ScalaValues.strings(((UnresolvedSubqueryColumnAliases) plan).outputColumnNames());
        } else if (plan instanceof UnresolvedTVFAliases) {
            names = ScalaValues.strings(((UnresolvedTVFAliases) plan).outputNames());
        } else if (plan instanceof UnresolvedTableValuedFunction) {
            names = ScalaValues.strings(((UnresolvedTableValuedFunction) plan).name());
            ParsedText.Span span = (ParsedText.Span) spans.get(plan);
            if (span != null) {
                told.put("span", span.json());
            }
        } else if (plan instanceof UnresolvedInlineTable) {
            names = ScalaValues.strings(((UnresolvedInlineTable) plan).names());
        } else if (plan instanceof UnresolvedWith) {
            boolean recursive = Boolean.TRUE.equals(ScalaValues.callOr(plan, "allowRecursion", null));
            told.put("mode", recursive ? "RECURSIVE" : "");
        } else if (plan instanceof Aggregate) {
            told.put("value", String.valueOf(((Aggregate) plan).groupingExpressions().size()));
        } else if (plan instanceof Generate && ((Generate) plan).qualifier().isDefined()) {
            names.add(((Generate) plan).qualifier().get());
        } else if (plan instanceof Join || plan instanceof LateralJoin) {
            JoinType type = plan instanceof Join ? ((Join) plan).joinType() : ((LateralJoin) plan).joinType();
            String natural = "";
            if (type instanceof UsingJoin) {
                names = ScalaValues.strings(((UsingJoin) type).usingColumns());
                type = ((UsingJoin) type).tpe();
            } else if (type instanceof NaturalJoin) {
                natural = "Natural";
                type = ((NaturalJoin) type).tpe();
            }
            told.put("mode", natural + ScalaValues.name(type));
        } else if (plan instanceof Union && ((Union) plan).byName()) {
            told.put("mode", "ByName");
        } else if (plan instanceof Pivot) {
            told.put("value", String.valueOf(((Pivot) plan).pivotValues().size()));
        } else if (plan instanceof Unpivot) {
            names.add(((Unpivot) plan).variableColumnName());
            names.addAll(ScalaValues.strings(((Unpivot) plan).valueColumnNames()));
        } else if (plan instanceof MergeIntoTable) {
            MergeIntoTable merge = (MergeIntoTable) plan;
            told.put("value", merge.matchedActions().size() + " " + merge.notMatchedActions().size());
        }
        if (!names.isEmpty()) {
            told.put("parts", names);
        }
        return told;
    }

    /** What a union is of. One of many is nested as deep to Spark, always on its left side. */
    private static List branches(Union union) {
        List found = ScalaValues.list(union.children());
        while (!union.byName() && found.get(0) instanceof Union && !((Union) found.get(0)).byName()) {
            List all = new ArrayList(ScalaValues.list(((Union) found.get(0)).children()));
            all.addAll(found.subList(1, found.size()));
            found = all;
        }
        return found;
    }

    private static Map node(TreeNode node, List children, List plans) {
        Map told = new LinkedHashMap();
        told.put("node", ScalaValues.name(node));
        if (!children.isEmpty()) {
            told.put("children", children);
        }
        if (!plans.isEmpty()) {
            told.put("plans", plans);
        }
        return told;
    }

    /** Whether the tree has become too large; then it is given up as a whole. */
    private boolean full(int level) {
        nodes = level > maxLevels ? maxNodes + 1 : nodes + 1;
        return nodes > maxNodes;
    }

    private List expressions(Object seq, int level) {
        List all = ScalaValues.list((scala.collection.Iterable) seq);
        List told = new ArrayList(all.size());
        for (int i = 0; i < all.size(); i++) {
            told.add(expression((Expression) all.get(i), level + 1));
        }
        return told;
    }
}
