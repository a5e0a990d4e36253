"""The tables of TPC-DS that the queries here read, with the columns that they use."""

from __future__ import annotations

from pathlib import Path

QUERIES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted(Path(__file__).parent.glob("queries/*.sql"))
}
"""By TPC-DS's own numbers. Parameters are widened where a small database would give no result; orders name
every column that tells rows apart, so that two runs give the same rows."""

TABLES: dict[str, dict[str, str]] = {
    "date_dim": {
        "d_date_sk": "int",
        "d_date": "date",
        "d_month_seq": "int",
        "d_year": "int",
        "d_dow": "int",
        "d_moy": "int",
        "d_dom": "int",
        "d_qoy": "int",
        "d_day_name": "string",
    },
    "time_dim": {"t_time_sk": "int", "t_hour": "int", "t_minute": "int"},
    "item": {
        "i_item_sk": "int",
        "i_item_id": "string",
        "i_item_desc": "string",
        "i_current_price": "decimal(7,2)",
        "i_brand_id": "int",
        "i_brand": "string",
        "i_class": "string",
        "i_category_id": "int",
        "i_category": "string",
        "i_manufact_id": "int",
        "i_manufact": "string",
        "i_manager_id": "int",
    },
    "store": {
        "s_store_sk": "int",
        "s_store_id": "string",
        "s_store_name": "string",
        "s_company_name": "string",
        "s_number_employees": "int",
        "s_city": "string",
        "s_county": "string",
        "s_zip": "string",
        "s_gmt_offset": "decimal(5,2)",
    },
    "customer": {
        "c_customer_sk": "int",
        "c_customer_id": "string",
        "c_current_addr_sk": "int",
        "c_salutation": "string",
        "c_first_name": "string",
        "c_last_name": "string",
        "c_preferred_cust_flag": "string",
        "c_email_address": "string",
    },
    "customer_address": {
        "ca_address_sk": "int",
        "ca_city": "string",
        "ca_county": "string",
        "ca_state": "string",
        "ca_zip": "string",
    },
    "customer_demographics": {
        "cd_demo_sk": "int",
        "cd_gender": "string",
        "cd_marital_status": "string",
        "cd_education_status": "string",
    },
    "household_demographics": {
        "hd_demo_sk": "int",
        "hd_buy_potential": "string",
        "hd_dep_count": "int",
        "hd_vehicle_count": "int",
    },
    "promotion": {"p_promo_sk": "int", "p_channel_email": "string", "p_channel_event": "string"},
    "store_sales": {
        "ss_sold_date_sk": "int",
        "ss_sold_time_sk": "int",
        "ss_item_sk": "int",
        "ss_customer_sk": "int",
        "ss_cdemo_sk": "int",
        "ss_hdemo_sk": "int",
        "ss_addr_sk": "int",
        "ss_store_sk": "int",
        "ss_promo_sk": "int",
        "ss_ticket_number": "int",
        "ss_quantity": "int",
        "ss_list_price": "decimal(7,2)",
        "ss_sales_price": "decimal(7,2)",
        "ss_ext_sales_price": "decimal(9,2)",
        "ss_ext_list_price": "decimal(9,2)",
        "ss_ext_tax": "decimal(9,2)",
        "ss_coupon_amt": "decimal(7,2)",
        "ss_net_profit": "decimal(9,2)",
    },
    "catalog_sales": {
        "cs_sold_date_sk": "int",
        "cs_bill_customer_sk": "int",
        "cs_bill_cdemo_sk": "int",
        "cs_item_sk": "int",
        "cs_promo_sk": "int",
        "cs_quantity": "int",
        "cs_list_price": "decimal(7,2)",
        "cs_sales_price": "decimal(7,2)",
        "cs_coupon_amt": "decimal(7,2)",
    },
}
