package sluice;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.codehaus.janino.Compiler;

/**
 * Compiles the parser's sources once, so that later starts load classes instead.
 *
 * Arguments: the directory of the sources, and the one that gets the classes.
 */
public final class SourceCompiler {
    private SourceCompiler() {}

    public static void main(String[] arguments) throws Exception {
        File sources = new File(arguments[0]);
        String[] entries = System.getProperty("java.class.path").split(File.pathSeparator);
        File[] classPath = new File[entries.length];
        for (int i = 0; i < entries.length; i++) {
            classPath[i] = new File(entries[i]);
        }
        Compiler compiler = new Compiler();
        compiler.setSourcePath(new File[] {sources});
        compiler.setClassPath(classPath);
        compiler.setDestinationDirectory(new File(arguments[1]), false);
        List found = new ArrayList();
        File[] files = new File(sources, "sluice").listFiles();
        for (int i = 0; i < files.length; i++) {
            if (files[i].getName().endsWith(".java")) {
                found.add(files[i]);
            }
        }
        compiler.compile((File[]) found.toArray(new File[found.size()]));
    }
}
