-- What the client programs read; a statement ends with a line that ends with a semicolon.
CREATE DATABASE programs_shop;
CREATE TABLE programs_shop.customer (
  id INT COMMENT 'a number', name STRING, email STRING, region STRING, joined DATE, spent DECIMAL(10,2)
) USING parquet COMMENT 'who buys';
INSERT INTO programs_shop.customer VALUES
  (1, 'Ann Bell', 'ann@x.example', 'EMEA', DATE'2020-05-01', 10.50),
  (2, 'Bo', 'bo@y.example', 'AMER', DATE'2021-02-28', 0.00),
  (3, 'Chen Wei', 'chen@x.example', 'APAC', DATE'2021-12-31', 99999999.99),
  (4, 'Dara "O\'Neil"', NULL, 'EMEA', DATE'1999-01-01', -1.25),
  (5, 'Élif', 'elif@z.example', 'EMEA', NULL, NULL),
  (6, 'Fritz', 'fritz@x.example', 'APAC', DATE'2024-02-29', 7.00);
CREATE TABLE programs_shop.region USING parquet AS
  SELECT * FROM VALUES ('EMEA', 'Europe and more'), ('AMER', 'The Americas') AS t(code, title);
CREATE TABLE programs_shop.numbers USING parquet AS SELECT id, id % 7 AS rest FROM range(2500);
CREATE TABLE programs_shop.every_type (
  number INT, truth BOOLEAN, tiny TINYINT, small SMALLINT, big BIGINT, real FLOAT, double DOUBLE,
  money DECIMAL(20,4), word STRING, code CHAR(4), short VARCHAR(7), raw BINARY, day DATE, moment TIMESTAMP,
  wall TIMESTAMP_NTZ, list ARRAY<INT>, dict MAP<STRING, INT>, pair STRUCT<a: INT, b: STRING>
) USING parquet;
INSERT INTO programs_shop.every_type VALUES
  (1, true, 1, 2, 3, 1.5, 2.5, 4.0001, 'w', 'ab', 'cd', X'00FF', DATE'2024-02-29',
   TIMESTAMP'2024-02-29 12:00:00.123456', TIMESTAMP_NTZ'2024-02-29 12:00:00', array(1, NULL), map('k', 1),
   named_struct('a', 1, 'b', 'x')),
  (3, false, -128, -32768, -9223372036854775808, float('NaN'), double('-Infinity'), -0.0001, '', '', '', X'',
   DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', array(), map(),
   named_struct('a', NULL, 'b', NULL));
INSERT INTO programs_shop.every_type (number) VALUES (2);
CREATE VIEW programs_shop.emea AS SELECT id, name FROM programs_shop.customer WHERE region = 'EMEA';
