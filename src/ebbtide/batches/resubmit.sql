-- name: list_unsuccessful
-- Items of an ended batch that did not succeed, in submission order, from after a cursor on.
select id, custom_id, model, chunk, line_offset, line_length from batch_items
where batch_no = $1 and id > $2 and state in ('failed', 'expired', 'cancelled') order by id limit $3;
