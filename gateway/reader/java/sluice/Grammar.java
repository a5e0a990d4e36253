package sluice;

import org.antlr.v4.runtime.ParserRuleContext;
import org.antlr.v4.runtime.tree.ParseTree;
import org.apache.spark.sql.catalyst.parser.SqlBaseParser;

/**
 * Where the grammars of Spark's minor versions differ: parts that not all of them have, found by name, since
 * Janino compiles against one of them. What a grammar does not have is null, and nothing is an instance of it.
 */
final class Grammar {
    /** A parameter marker where no value stands: 4.1 and later. */
    private static final Class PARAMETER_MARKER = rule("ParameterMarker");
    /** A table's name with what may follow it directly, `t@v1`: 4.3 and later; before, the name alone. */
    private static final Class TEMPORAL_NAME = rule("TemporalTableIdentifierReference");
    /** WATERMARK after a table's name: 4.1 and later. */
    private static final Class WATERMARK = rule("WatermarkClause");
    /** WITH (…) after a table's name: 4.0 and later. */
    private static final Class OPTIONS = rule("OptionsClause");
    /** `|>`: 4.0 and later. */
    private static final Class PIPE = rule("OperatorPipeStatement");
    /** What stands behind `|>`. */
    private static final Class PIPED = rule("OperatorPipeRightSide");
    /** `IDENTIFIER('s')` where an identifier stands: 4.1 and later. */
    private static final Class IDENTIFIER_LITERAL = rule("IdentifierLiteral");
    /** The name of a catalog: 4.0 and later. */
    private static final Class CATALOG_NAME = rule("CatalogIdentifierReference");
    /** COMMENT ON COLUMN: 4.3 and later. */
    private static final Class COMMENT_COLUMN = rule("CommentColumn");
    private static final Class COLUMN_COMMENT = rule("ColumnComment");
    /** Options of MERGE's source: 4.3 and later. */
    private static final java.lang.reflect.Field SOURCE_OPTIONS =
        label(SqlBaseParser.MergeIntoTableContext.class, "sourceOptions");

    /** CREATE VIEW … WITH METRICS: 4.2 and later. */
    private static final Class METRIC_VIEW = rule("CreateMetricView");
    private static final Class CODE = rule("CodeLiteral");

    private Grammar() {}

    /** The definition of a metric view that a statement makes, or null. */
    static ParserRuleContext metrics(ParserRuleContext context) {
        return METRIC_VIEW != null && METRIC_VIEW.isInstance(context) ? child(context, CODE) : null;
    }

    /** The properties that a statement gives, or null. */
    static SqlBaseParser.PropertyListContext properties(ParserRuleContext context) {
        return (SqlBaseParser.PropertyListContext) child(context, SqlBaseParser.PropertyListContext.class);
    }

    static boolean isPipe(Object context) {
        return PIPE != null && PIPE.isInstance(context);
    }

    static boolean isPiped(Object context) {
        return PIPED != null && PIPED.isInstance(context);
    }

    /** The string that gives an identifier, or null. */
    static ParserRuleContext identifierLiteral(ParserRuleContext context) {
        return IDENTIFIER_LITERAL != null && IDENTIFIER_LITERAL.isInstance(context)
            ? child(context, SqlBaseParser.StringLitContext.class) : null;
    }

    /** The expression that gives the name of a catalog, or null. */
    static ParserRuleContext catalogName(ParserRuleContext context) {
        return CATALOG_NAME != null && CATALOG_NAME.isInstance(context)
            ? child(context, SqlBaseParser.ExpressionContext.class) : null;
    }

    /** The name of the column that a comment is for, or null. */
    static SqlBaseParser.MultipartIdentifierContext commentedColumn(ParserRuleContext context) {
        if (COMMENT_COLUMN == null || !COMMENT_COLUMN.isInstance(context)) {
            return null;
        }
        return (SqlBaseParser.MultipartIdentifierContext)
            child(child(context, COLUMN_COMMENT), SqlBaseParser.MultipartIdentifierContext.class);
    }

    /** The options of a table that is read, or null. */
    static ParserRuleContext options(SqlBaseParser.TableNameContext context) {
        return child(context, OPTIONS);
    }

    static boolean isParameterMarker(ParserRuleContext context) {
        return PARAMETER_MARKER != null && PARAMETER_MARKER.isInstance(context);
    }

    /** A table's name with what follows it directly: the context of either, whose first child names the table. */
    static ParserRuleContext temporalName(SqlBaseParser.TableNameContext context) {
        ParserRuleContext temporal = child(context, TEMPORAL_NAME);
        return temporal == null ? nameIn(context) : temporal;
    }

    /** The name of a table in one of its contexts. */
    static SqlBaseParser.IdentifierReferenceContext nameIn(ParserRuleContext context) {
        return context instanceof SqlBaseParser.IdentifierReferenceContext
            ? (SqlBaseParser.IdentifierReferenceContext) context
            : (SqlBaseParser.IdentifierReferenceContext)
                child(context, SqlBaseParser.IdentifierReferenceContext.class);
    }

    static boolean hasWatermark(SqlBaseParser.TableNameContext context) {
        return child(context, WATERMARK) != null;
    }

    /** The options of MERGE's source, or null. */
    static ParserRuleContext sourceOptions(SqlBaseParser.MergeIntoTableContext context) {
        try {
            return SOURCE_OPTIONS == null ? null : (ParserRuleContext) SOURCE_OPTIONS.get(context);
        } catch (IllegalAccessException closed) {
            throw new IllegalStateException("a part of MERGE cannot be read", closed);
        }
    }

    /** The first child of this kind, or null. */
    private static ParserRuleContext child(ParserRuleContext of, Class kind) {
        for (int i = 0; of != null && kind != null && i < of.getChildCount(); i++) {
            ParseTree child = of.getChild(i);
            if (kind.isInstance(child)) {
                return (ParserRuleContext) child;
            }
        }
        return null;
    }

    private static Class rule(String name) {
        try {
            return Class.forName(SqlBaseParser.class.getName() + "$" + name + "Context");
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    private static java.lang.reflect.Field label(Class context, String name) {
        try {
            return context.getField(name);
        } catch (NoSuchFieldException absent) {
            return null;
        }
    }
}
