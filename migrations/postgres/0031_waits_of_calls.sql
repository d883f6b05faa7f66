-- What a call waits for was told from several fields of `more`; now its state has it.
update tool_calls
set more = '{"waits_for":' || case when more::json ->> 'has_passed' = 'true' then '"resource"' else '"gate"' end
    || ',' || substr(more, 2)
where state = 'scheduled';

update tool_calls
set more = '{"work":' || case
        when more::json ->> 'expires' is null then '"server"'
        when run_by = 'browser' then '{"browser":{"expires":"' || (more::json ->> 'expires') || '"}}'
        else '{"asking":{"about":"' || case when more::json -> 'asked_about' is null then 'call' else 'failure' end
            || '","expires":"' || (more::json ->> 'expires') || '"}}'
    end || ',' || substr(more, 2)
where state = 'executing';
