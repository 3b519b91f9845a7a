/** Why calls of a route failed last, in words; the kinds are the gateway's (dispatch/outcome.py). */

const FAILURES: Record<string, string> = {
  no_route: 'no route may take the call',
  refused: 'no connection: refused, an unknown host, or a certificate that does not hold',
  connect_timeout: 'no connection in time',
  reset: 'the connection broke before the answer',
  timeout: 'the answer was not whole in time',
  first_byte_timeout: 'the answer did not begin in time',
  gap_timeout: 'the answer stopped in the middle',
  status: 'it answered with an error',
  model_queued: 'its deployment waits for hardware',
  redirect: 'it sent the call elsewhere, which is not followed',
  unsupported: 'it cannot carry a field of the request',
  malformed: 'its answer was no valid JSON',
  unsayable: 'its answer has no place in the form that was asked for',
  too_large: 'its answer was too large',
  internal: 'a mistake of the gateway itself',
};

export function failureWords(kind: string): string {
  return FAILURES[kind] ?? kind;
}
