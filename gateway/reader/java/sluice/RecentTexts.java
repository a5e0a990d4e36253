package sluice;

import java.lang.ref.SoftReference;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Parsed statements of the last moments: a proof parses what was just read, and the same guards, again.
 *
 * Originals and guards are kept apart, so that no node of a guard is ever also a node of the statement that
 * it is put into: substitution goes by identity. Parse trees can be a thousand times as large as their text,
 * so the collector may drop them whenever it is short.
 */
final class RecentTexts {
    static final RecentTexts ORIGINALS = new RecentTexts(false, Limits.KEPT_TEXTS);
    static final RecentTexts EXPRESSIONS = new RecentTexts(true, Limits.KEPT_TEXTS);
    static final RecentTexts GUARDS = new RecentTexts(false, Limits.KEPT_GUARDS);

    private final LinkedHashMap kept = new LinkedHashMap(64, 0.75f, true);
    private final boolean expressions;
    private final int most;

    private RecentTexts(boolean expressions, int most) {
        this.expressions = expressions;
        this.most = most;
    }

    ParsedText parsed(String text) {
        if (text.length() > Limits.KEPT_CHARS) {
            return ParsedText.of(text, expressions);
        }
        ParsedText parsed;
        synchronized (this) {
            SoftReference reference = (SoftReference) kept.get(text);
            parsed = reference == null ? null : (ParsedText) reference.get();
        }
        if (parsed == null) {
            parsed = ParsedText.of(text, expressions);
            if (this == GUARDS) {
                parsed.forgetTree();
            }
            synchronized (this) {
                kept.put(text, new SoftReference(parsed));
                if (kept.size() > most) {
                    kept.remove(((Map.Entry) kept.entrySet().iterator().next()).getKey());
                }
            }
        }
        return parsed;
    }
}
