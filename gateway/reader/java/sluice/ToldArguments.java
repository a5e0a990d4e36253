package sluice;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.Parameter;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.unsafe.types.UTF8String;

/** Arguments of functions that take a schema or the name of a table as text: what of them can be read without
 *  evaluating it. */
final class ToldArguments {
    static final List NONE = new ArrayList();
    private static final String NAMES = " from_csv from_json from_xml schema_of_xml table_changes try_variant_get variant_get"
        + " xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string ";

    private ToldArguments() {}

    static List of(List parts, scala.collection.Iterable arguments) {
        String name = ((String) parts.get(parts.size() - 1)).toLowerCase(Locale.ROOT);
        if (NAMES.indexOf(" " + name + " ") < 0) {
            return NONE;
        }
        List all = ScalaValues.list(arguments);
        List told = new ArrayList();
        for (int i = 0; i < all.size(); i++) {
            told.add(argument(all.get(i)));
        }
        return told;
    }

    private static Map argument(Object expression) {
        Map told = new LinkedHashMap();
        told.put("literal", null);
        told.put("call", null);
        told.put("keys", null);
        told.put("other", null);
        told.put("parameter", Boolean.valueOf(expression instanceof Parameter));
        if (expression instanceof Literal && ((Literal) expression).value() instanceof UTF8String) {
            told.put("literal", ((Literal) expression).value().toString());
        } else if (expression instanceof Literal) {
            told.put("other", ((Literal) expression).sql());
        } else if (expression instanceof UnresolvedFunction) {
            List parts = ScalaValues.strings(((UnresolvedFunction) expression).nameParts());
            if (parts.size() == 1) {
                told.put("call", parts.get(0));
                told.put("keys", keys(((UnresolvedFunction) expression).arguments()));
            }
        }
        return told;
    }

    /** The strings in every other place, from the first on, as keys of a map are; null where one is no literal. */
    private static List keys(scala.collection.Iterable arguments) {
        List all = ScalaValues.list(arguments);
        List keys = new ArrayList();
        for (int i = 0; i < all.size(); i += 2) {
            Object key = all.get(i);
            if (!(key instanceof Literal) || !(((Literal) key).value() instanceof UTF8String)) {
                return null;
            }
            keys.add(((Literal) key).value().toString());
        }
        return keys;
    }
}
