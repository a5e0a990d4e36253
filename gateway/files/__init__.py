"""Files become tables when they are first named: found out, saved, and made known to Spark."""
