package sluice;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation$;

/** One place in a plan that names a relation, with what the text says of it. */
final class Mention {
    static final String SCAN = "scan";
    static final String TARGET = "target";
    static final String CTE = "cte";

    /** The node that carries the name. */
    final Object node;
    /** The node that a guarded relation stands in for: the time travel around the name, or the name's node. */
    final Object replaced;
    final List parts;
    final String role;
    final String holder;
    ParsedText.Span span;
    WrittenForms.Form form;

    Mention(Object node, Object replaced, List parts, String role, String holder) {
        this.node = node;
        this.replaced = replaced;
        this.parts = parts;
        this.role = role;
        this.holder = holder;
    }

    boolean scan() {
        return SCAN.equals(role);
    }

    Map json() {
        Map told = new LinkedHashMap();
        told.put("parts", parts);
        told.put("role", role);
        told.put("node", ScalaValues.name(node));
        told.put("holder", holder);
        told.put("span", span == null ? null : span.json());
        told.put("options", options());
        if (form != null) {
            told.put("form", form.kind);
            told.put("whole", form.whole == null ? null : form.whole.json());
            told.put("suffix", form.suffix == null ? null : form.suffix.json());
            told.put("sample", form.sample == null ? null : form.sample.json());
            told.put("alias", form.alias == null ? null : form.alias.json());
        }
        return told;
    }

    /** Keys of `WITH (…)` and the like; the privileges that Spark notes on a target's node are not options. */
    private List options() {
        List keys = new ArrayList();
        if (node instanceof UnresolvedRelation) {
            keys.addAll(((UnresolvedRelation) node).options().asCaseSensitiveMap().keySet());
            if (TARGET.equals(role)) {
                keys.remove(UnresolvedRelation$.MODULE$.REQUIRED_WRITE_PRIVILEGES());
            }
        }
        return keys;
    }
}
