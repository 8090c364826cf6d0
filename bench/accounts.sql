WITH opened AS (
    INSERT INTO account (id, currency, available, deposited)
    SELECT 'bench-' || i, 'USD', 1000000000000, 1000000000000
    FROM generate_series(0, $1::integer - 1) i
    RETURNING id, deposited
), deposited AS (
    INSERT INTO deposit (id, account_id, amount, note, actor)
    SELECT gen_random_uuid(), id, deposited, 'opening balance', 'bench' FROM opened
)
INSERT INTO api_key (id, prefix, hash, scope, account_id)
SELECT 'key_' || id, '', sha256(convert_to('hf_client_bench_0123456789abcdef_' || substr(id, 7), 'UTF8')), 'client', id
FROM opened;
