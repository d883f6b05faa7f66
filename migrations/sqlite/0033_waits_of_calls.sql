-- What a call waits for was told from several fields of `more`; now its state has it.
update tool_calls
set more = '{"waits_for":' || iif(json_extract(more, '$.has_passed'), '"resource"', '"gate"') || ',' || substr(more, 2)
where state = 'scheduled';

update tool_calls
set more = '{"work":' || case
        when json_extract(more, '$.expires') is null then '"server"'
        when run_by = 'browser' then '{"browser":{"expires":"' || json_extract(more, '$.expires') || '"}}'
        else '{"asking":{"about":"' || iif(json_extract(more, '$.asked_about') is null, 'call', 'failure')
            || '","expires":"' || json_extract(more, '$.expires') || '"}}'
    end || ',' || substr(more, 2)
where state = 'executing';
