-- The time at which a stock page of the owner last answered by POST /chat/tool-result while its stream was open, in microseconds since 1970;
-- null if none ever did. With hold = auto the later of the two times says for how long streams of the owner's stock pages are held.
alter table owners add column answered_by_result_at integer;
