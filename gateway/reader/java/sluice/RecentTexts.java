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
    static final RecentTexts ORIGINALS = new RecentTexts(false);
    static final RecentTexts EXPRESSIONS = new RecentTexts(true);
    static final RecentTexts GUARDS = new RecentTexts(false);

    private final LinkedHashMap kept = new LinkedHashMap(64, 0.75f, true);
    private final boolean expressions;

    private RecentTexts(boolean expressions) {
        this.expressions = expressions;
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
            synchronized (this) {
                kept.put(text, new SoftReference(parsed));
                if (kept.size() > Limits.KEPT_TEXTS) {
                    kept.remove(((Map.Entry) kept.entrySet().iterator().next()).getKey());
                }
            }
        }
        return parsed;
    }
}
