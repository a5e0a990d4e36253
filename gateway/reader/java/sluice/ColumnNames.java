package sluice;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedExtractValue;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.AggregateWindowFunction;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GetArrayItem;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.RangeFrame$;
import org.apache.spark.sql.catalyst.expressions.RowFrame$;
import org.apache.spark.sql.catalyst.expressions.SpecifiedWindowFrame;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.CurrentRow$;
import org.apache.spark.sql.catalyst.expressions.UnboundedFollowing$;
import org.apache.spark.sql.catalyst.expressions.UnboundedPreceding$;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.UnspecifiedFrame$;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.WindowSpecDefinition;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;

/**
 * What Spark calls the columns of a select list that have no alias, by Spark's own functions and its own rule.
 *
 * Every column that an expression refers to is a hole in the name: how Spark shows a reference depends on what it
 * means. Nothing is analysed, so nothing of a statement is computed here. What would take an analysis has no name.
 */
final class ColumnNames {
    static final String OPEN = "\uE000";
    static final String CLOSE = "\uE001";
    /** Items of one text that are named; nobody writes more. */
    private static final int MAX_ITEMS = 1000;
    /** Nanoseconds for one text, well below the reader's deadline; what comes later in it has no name. */
    private static final long MAX_TIME = 2000000000L;
    /** Characters of an item and of a name. */
    private static final int MAX_CHARS = 4000;
    /** Calls of constants alone that may stand within another call: some functions compute such arguments when
     *  they are made. */
    private static final Set CHEAP = new HashSet(Arrays.asList(new Object[] {
        "current_date", "current_timestamp", "now", "localtimestamp", "current_user", "user", "current_database",
        "count", "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "rand", "randn", "uuid", "array",
        "map", "struct", "named_struct", "date", "timestamp", "to_date", "to_timestamp", "make_date", "concat",
        "lower", "upper", "date_add", "date_sub", "add_months", "trunc", "date_trunc", "unix_timestamp", "pi", "e",
        "monotonically_increasing_id", "input_file_name", "spark_partition_id", "current_catalog",
    }));
    /** They load classes by name, or read files. */
    private static final Set REACHING = new HashSet(Arrays.asList(new Object[] {
        "reflect", "java_method", "try_reflect", "from_avro", "to_avro", "schema_of_avro", "from_protobuf",
        "to_protobuf",
    }));
    /** References of an item up to which it is named by what they may be. */
    private static final int MAX_DATED = 2;
    private static final String[] KINDS = {"number", "date", "timestamp"};
    private static final DataType[] TYPES = {DataTypes.IntegerType, DataTypes.DateType, DataTypes.TimestampType};
    /** What Spark puts in the place of operators on dates; null before Spark 4.0. */
    private static final Class DATED =
        ScalaValues.known("org.apache.spark.sql.catalyst.analysis.BinaryArithmeticWithDatetimeResolver$");
    private static final Object PRETTY = org.apache.spark.sql.catalyst.util.package$.MODULE$;

    /** That Spark's name is not known here. */
    private static final class Unknown extends RuntimeException {
        Unknown() {
            super(null, null, false, false);
        }
    }

    private final DataType type;
    /** Types of single references, by their parts. */
    private Map types = new LinkedHashMap();
    /** What the holes are, by number: name parts, and the key of what is taken out of a map or a struct. */
    private final List holes = new ArrayList();

    /** Arguments of the lambda functions around, lower case. */
    private final List variables = new ArrayList();

    /** Whether it is a cast of a hole. */
    private boolean cast;
    /** Whether a sum or a difference has dates or intervals in it. */
    private boolean computes;

    private ColumnNames(DataType type) {
        this.type = type;
    }

    /** Every item of the text that has a name, with where it stands. */
    static List of(ParsedText parsed) {
        List found = new ArrayList();
        if (parsed.text.indexOf(OPEN) >= 0 || parsed.text.indexOf(CLOSE) >= 0) {
            return found;
        }
        List items = parsed.forms().items();
        long began = System.nanoTime();
        for (int i = 0; i < items.size() && i < MAX_ITEMS && System.nanoTime() - began < MAX_TIME; i++) {
            WrittenForms.Item item = (WrittenForms.Item) items.get(i);
            Map told = item.span.end - item.span.start > MAX_CHARS ? null : named(parsed, item);
            if (told != null) {
                told.put("span", item.span.json());
                found.add(told);
            }
        }
        return found;
    }

    private static Map named(ParsedText parsed, WrittenForms.Item item) {
        String text = parsed.slice(item.span.start, item.span.end);
        Expression written;
        Map windows = null;
        try {
            KeepingParser spark = ParserChain.ofThread().spark;
            written = spark.parseExpression(text);
            if (item.windows != null) {
                windows = windows(spark, parsed.slice(item.windows.start, item.windows.end));
            }
        } catch (Exception refused) {
            return null;
        }
        if (written instanceof UnresolvedAttribute) {
            return null;
        }
        ColumnNames holes = new ColumnNames(DataTypes.StringType);
        String name = holes.name(written, windows);
        ColumnNames numbers = new ColumnNames(DataTypes.IntegerType);
        String ofNumbers = numbers.name(written, windows);
        if (name == null) {
            // Beside a number, as in nvl(n, 0), no text may be.
            name = ofNumbers;
            holes = numbers;
        }
        if (name == null || (ofNumbers != null && !ofNumbers.equals(name))) {
            return null;
        }
        Map told = new LinkedHashMap();
        told.put("name", name);
        told.put("dated", new ArrayList());
        told.put("holes", holes.holes);
        told.put("cast", Boolean.valueOf(holes.cast));
        // With dates and intervals Spark puts other functions in the place of some operators.
        ColumnNames dates = new ColumnNames(DataTypes.DateType);
        told.put("plain", Boolean.valueOf(!name.equals(dates.name(written, windows)) || dates.computes));
        if (Boolean.TRUE.equals(told.get("plain"))) {
            told.put("dated", dated(written, windows));
        }
        return told;
    }

    /** The names where some of the references are dates or timestamps, with what each of them is then. */
    private static List dated(Expression written, Map windows) {
        List found = new ArrayList();
        List references = new ArrayList();
        if (DATED == null || !collected(written, references) || references.size() > MAX_DATED) {
            return found;
        }
        int combinations = (int) Math.pow(KINDS.length, references.size());
        for (int i = 1; i < combinations; i++) {
            ColumnNames names = new ColumnNames(DataTypes.IntegerType);
            List kinds = new ArrayList();
            for (int at = 0, left = i; at < references.size(); at++, left /= KINDS.length) {
                names.types.put(references.get(at), TYPES[left % KINDS.length]);
                Map kind = new LinkedHashMap();
                kind.put("parts", references.get(at));
                kind.put("kind", KINDS[left % KINDS.length]);
                kinds.add(kind);
            }
            String name = names.name(written, windows);
            if (name != null) {
                Map told = new LinkedHashMap();
                told.put("where", kinds);
                told.put("name", name);
                told.put("holes", names.holes);
                found.add(told);
            }
        }
        return found;
    }

    /** Whether all that an expression refers to are columns by their names, which are added. */
    private static boolean collected(Expression node, List references) {
        if (node instanceof UnresolvedAttribute) {
            List parts = ScalaValues.strings(((UnresolvedAttribute) node).nameParts());
            if (!references.contains(parts)) {
                references.add(parts);
            }
            return true;
        }
        if (node instanceof UnresolvedExtractValue || node instanceof LambdaFunction) {
            return false;
        }
        List children = ScalaValues.list(node.children());
        for (int i = 0; i < children.size(); i++) {
            if (!collected((Expression) children.get(i), references)) {
                return false;
            }
        }
        return true;
    }

    private static Map windows(KeepingParser spark, String clause) {
        Map found = new LinkedHashMap();
        scala.Product defined = (scala.Product) spark.parsePlan("SELECT 1 " + clause);
        List pairs = ScalaValues.list((scala.collection.Iterable) defined.productElement(0));
        for (int i = 0; i < pairs.size(); i++) {
            scala.Tuple2 pair = (scala.Tuple2) pairs.get(i);
            found.put(((String) pair._1()).toLowerCase(Locale.ROOT), pair._2());
        }
        return found;
    }

    private String name(Expression written, Map windows) {
        try {
            Expression resolved = resolved(written, windows, false);
            if (resolved instanceof Generator) {
                return null;
            }
            cast = resolved instanceof Cast && ((Cast) resolved).child() instanceof AttributeReference;
            String name = pretty(resolved);
            return name.length() > MAX_CHARS ? null : name;
        } catch (Exception unknown) {
            return null;
        }
    }

    private static String pretty(Expression expression) throws Exception {
        Method method = ScalaValues.method(PRETTY.getClass(), "toPrettySQL", new Class[] {Expression.class});
        if (method != null) {
            return (String) method.invoke(PRETTY, new Object[] {expression});
        }
        method = ScalaValues.method(PRETTY.getClass(), "toPrettySQL", new Class[] {Expression.class, boolean.class});
        return (String) method.invoke(PRETTY, new Object[] {expression, Boolean.TRUE});
    }

    /** The expression with Spark's functions in the place of their names. `within`: a call. */
    private Expression resolved(Expression node, Map windows, boolean within) throws Exception {
        if (node instanceof UnresolvedAttribute) {
            return hole(ScalaValues.strings(((UnresolvedAttribute) node).nameParts()), null);
        }
        if (node instanceof UnresolvedNamedLambdaVariable) {
            // Within a lambda function the parser makes one of every name.
            List parts = ScalaValues.strings(((UnresolvedNamedLambdaVariable) node).nameParts());
            if (!variables.contains(((String) parts.get(0)).toLowerCase(Locale.ROOT))) {
                return hole(parts, null);
            }
            if (parts.size() > 1) {
                throw new Unknown();
            }
            return variable((UnresolvedNamedLambdaVariable) node);
        }
        if (node instanceof SubqueryExpression) {
            throw new Unknown();
        }
        if (node instanceof UnresolvedFunction) {
            return called((UnresolvedFunction) node, windows, within);
        }
        String kind = ScalaValues.name(node);
        if (kind.equals("UnresolvedWindowExpression")) {
            scala.Product window = (scala.Product) node;
            Object referred = ((scala.Product) window.productElement(1)).productElement(0);
            Object spec = windows == null ? null : windows.get(((String) referred).toLowerCase(Locale.ROOT));
            if (!(spec instanceof WindowSpecDefinition)) {
                throw new Unknown();
            }
            return resolved(
                new WindowExpression((Expression) window.productElement(0), (WindowSpecDefinition) spec),
                windows, within);
        }
        int around = variables.size();
        if (node instanceof LambdaFunction) {
            List arguments = ScalaValues.list(((LambdaFunction) node).arguments());
            for (int i = 0; i < arguments.size(); i++) {
                variables.add(((NamedExpression) arguments.get(i)).name().toLowerCase(Locale.ROOT));
            }
        }
        List children = ScalaValues.list(node.children());
        List found = new ArrayList();
        for (int i = 0; i < children.size(); i++) {
            found.add(resolved((Expression) children.get(i), windows, within));
        }
        variables.subList(around, variables.size()).clear();
        if (node instanceof UnresolvedExtractValue) {
            Expression of = (Expression) found.get(0);
            Expression at = (Expression) found.get(1);
            if (!(at instanceof Literal)) {
                throw new Unknown();
            }
            Object key = ((Literal) at).value();
            if (at.dataType() == DataTypes.StringType && key != null
                && children.get(0) instanceof UnresolvedAttribute) {
                // A map and a struct look different.
                return hole(ScalaValues.strings(((UnresolvedAttribute) children.get(0)).nameParts()), key.toString());
            }
            // By number an array and a map look the same; by name it takes the type.
            return at.dataType() == DataTypes.IntegerType && of.dataType() == type
                ? new GetArrayItem(of, at, false) : extracted(of, at);
        }
        if (kind.startsWith("Unresolved") && !kind.equals("UnresolvedAlias")) {
            throw new Unknown();
        }
        if (node instanceof Add || node instanceof Subtract) {
            Expression computed = (Expression) node.withNewChildren(ScalaValues.scalaList(found));
            return isPlain((Expression) found.get(0)) && isPlain((Expression) found.get(1))
                ? computed : datedArithmetic(computed, found);
        }
        if (node instanceof WindowExpression) {
            return framed((Expression) found.get(0), (WindowSpecDefinition) found.get(1));
        }
        return children.isEmpty()
            ? node : (Expression) node.withNewChildren(ScalaValues.scalaList(found));
    }

    private static Expression extracted(Expression of, Expression at) throws Exception {
        Object made = org.apache.spark.sql.catalyst.expressions.ExtractValue$.MODULE$.apply(
            of, at, org.apache.spark.sql.internal.SQLConf.get().resolver());
        return (Expression) made;
    }

    /** What a function adds by itself: lambdas whose variables Spark has yet to bind. */
    private Expression bound(Expression node) {
        if (node instanceof UnresolvedNamedLambdaVariable) {
            return variable((UnresolvedNamedLambdaVariable) node);
        }
        List children = ScalaValues.list(node.children());
        List found = new ArrayList();
        boolean same = true;
        for (int i = 0; i < children.size(); i++) {
            Expression child = bound((Expression) children.get(i));
            same &= child == children.get(i);
            found.add(child);
        }
        return same ? node : (Expression) node.withNewChildren(ScalaValues.scalaList(found));
    }

    private Expression variable(UnresolvedNamedLambdaVariable written) {
        return new NamedLambdaVariable(
            written.name(), type, true, NamedExpression$.MODULE$.newExprId(),
            new java.util.concurrent.atomic.AtomicReference());
    }

    private Expression hole(List parts, String key) {
        Map hole = new LinkedHashMap();
        hole.put("parts", parts);
        if (key != null) {
            hole.put("key", key);
        }
        int number = holes.indexOf(hole);
        if (number < 0) {
            number = holes.size();
            holes.add(hole);
        }
        Object of = key == null ? types.get(parts) : null;
        return new AttributeReference(
            OPEN + String.valueOf(number) + CLOSE, of == null ? type : (DataType) of, true, Metadata.empty(),
            NamedExpression$.MODULE$.newExprId(), ScalaValues.scalaList(new ArrayList()));
    }

    private static boolean isPlain(Expression operand) {
        DataType of = operand.dataType();
        return of instanceof org.apache.spark.sql.types.NumericType
            || of instanceof org.apache.spark.sql.types.StringType;
    }

    /** What Spark makes of a sum or a difference with dates or intervals in it. */
    private Expression datedArithmetic(Expression computed, List operands) throws Exception {
        computes = true;
        for (int i = 0; i < operands.size(); i++) {
            DataType of = ((Expression) operands.get(i)).dataType();
            boolean known = of == DataTypes.DateType || of == DataTypes.TimestampType
                || of instanceof org.apache.spark.sql.types.NumericType
                || of instanceof org.apache.spark.sql.types.DayTimeIntervalType
                || of instanceof org.apache.spark.sql.types.YearMonthIntervalType;
            if (!known) {
                throw new Unknown();
            }
        }
        if (DATED == null) {
            throw new Unknown();
        }
        Method resolve = ScalaValues.method(DATED, "resolve", new Class[] {Expression.class});
        return (Expression) resolve.invoke(DATED.getField("MODULE$").get(null), new Object[] {computed});
    }

    /** A call of a function that Spark has built in. */
    private Expression called(UnresolvedFunction call, Map windows, boolean within) throws Exception {
        List parts = ScalaValues.strings(call.nameParts());
        String name = ((String) parts.get(parts.size() - 1)).toLowerCase(Locale.ROOT);
        boolean unusual = parts.size() != 1 || REACHING.contains(name)
            || isSet(ScalaValues.callOr(call, "ignoreNulls", null))
            || Boolean.TRUE.equals(ScalaValues.callOr(call, "isInternal", null));
        if (unusual) {
            throw new Unknown();
        }
        List written = ScalaValues.list(call.arguments());
        List arguments = new ArrayList();
        boolean constant = true;
        for (int i = 0; i < written.size(); i++) {
            Expression argument = (Expression) written.get(i);
            if (ScalaValues.name(argument).equals("UnresolvedStar") && name.equals("count")
                && written.size() == 1 && String.valueOf(argument).equals("*")) {
                arguments.add(Literal$.MODULE$.apply(Integer.valueOf(1)));
                continue;
            }
            constant &= isConstant(argument);
            arguments.add(resolved(argument, windows, true));
        }
        if (within && constant && !CHEAP.contains(name)) {
            throw new Unknown();
        }
        FunctionIdentifier identifier = new FunctionIdentifier(name);
        Expression made = (Expression) FunctionRegistry$.MODULE$.builtin().lookupFunction(
            identifier, ScalaValues.scalaList(arguments));
        String kind = ScalaValues.name(made);
        if (kind.equals("TimeWindow") || kind.equals("SessionWindow") || kind.equals("WindowTime")) {
            throw new Unknown();  // Spark makes other columns of them
        }
        if (made instanceof Generator && within) {
            throw new Unknown();
        }
        List orders = ScalaValues.list((scala.collection.Iterable)
            ScalaValues.callOr(call, "orderingWithinGroup", ScalaValues.scalaList(new ArrayList())));
        if (!orders.isEmpty()) {
            made = ordered(made, orders, windows);
        }
        if (made instanceof AggregateFunction && !(made instanceof AggregateWindowFunction)) {
            scala.Option filter = call.filter();
            if (filter.isDefined()) {
                filter = scala.Option$.MODULE$.apply(resolved((Expression) filter.get(), windows, true));
            }
            return ((AggregateFunction) made).toAggregateExpression(call.isDistinct(), filter);
        }
        if (call.isDistinct() || call.filter().isDefined()) {
            throw new Unknown();
        }
        return made instanceof org.apache.spark.sql.catalyst.expressions.HigherOrderFunction ? bound(made) : made;
    }

    /** The function with its WITHIN GROUP. */
    private Expression ordered(Expression function, List orders, Map windows) throws Exception {
        Class sorting = ScalaValues.known("org.apache.spark.sql.catalyst.expressions.aggregate.SupportsOrderingWithinGroup");
        if (sorting == null || !sorting.isInstance(function)) {
            throw new Unknown();
        }
        List found = new ArrayList();
        for (int i = 0; i < orders.size(); i++) {
            found.add(resolved((Expression) orders.get(i), windows, true));
        }
        Method fill = ScalaValues.method(
            sorting, "withOrderingWithinGroup", new Class[] {scala.collection.immutable.Seq.class});
        if (fill == null) {
            throw new Unknown();
        }
        return (Expression) fill.invoke(function, new Object[] {ScalaValues.scalaList(found)});
    }

    /** Whether a flag is set, which newer Sparks have as an option. */
    private static boolean isSet(Object flag) {
        return flag instanceof scala.Option ? ((scala.Option) flag).isDefined() : Boolean.TRUE.equals(flag);
    }

    /** Whether an expression refers to nothing. */
    private static boolean isConstant(Expression node) {
        if (node instanceof UnresolvedAttribute || node instanceof UnresolvedNamedLambdaVariable) {
            return false;
        }
        List children = ScalaValues.list(node.children());
        for (int i = 0; i < children.size(); i++) {
            if (!isConstant((Expression) children.get(i))) {
                return false;
            }
        }
        return true;
    }

    /** The window with the frame that Spark takes where none is written. */
    private static Expression framed(Expression function, WindowSpecDefinition spec) {
        if (spec.frameSpecification() != UnspecifiedFrame$.MODULE$) {
            return new WindowExpression(function, spec);
        }
        Object own = ScalaValues.callOr(function, "frame", UnspecifiedFrame$.MODULE$);
        boolean ordered = !ScalaValues.list(spec.orderSpec()).isEmpty();
        Object frame = own;
        if (own == UnspecifiedFrame$.MODULE$) {
            frame = ordered
                ? new SpecifiedWindowFrame(RangeFrame$.MODULE$, UnboundedPreceding$.MODULE$, CurrentRow$.MODULE$)
                : new SpecifiedWindowFrame(
                    RowFrame$.MODULE$, UnboundedPreceding$.MODULE$, UnboundedFollowing$.MODULE$);
        }
        return new WindowExpression(function, new WindowSpecDefinition(
            spec.partitionSpec(), spec.orderSpec(),
            (org.apache.spark.sql.catalyst.expressions.WindowFrame) frame));
    }
}
