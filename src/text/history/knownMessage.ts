/** Messages of OpenAI's chat format as clients send them, including fields without content. */

const KNOWN = ['role', 'content', 'reasoning_content', 'tool_calls', 'tool_call_id', 'name'] as const

/** Returns the supported fields of a call. Empty text counts as no arguments. */
const knownCall = (call: unknown): unknown => {
  if (typeof call !== 'object' || call === null || !('function' in call)) return call
  const { id, type, function: called } = call as Readonly<Record<string, unknown>> // an object, as checked
  if (typeof called !== 'object' || called === null) return call
  const { name, arguments: args } = called as Readonly<Record<string, unknown>> // likewise
  return {
    ...(id != null && { id }),
    ...(type != null && { type }),
    function: { name, arguments: args === '' ? '{}' : args },
  }
}

/**
 * Returns the supported fields of a message. vLLM calls the reasoning `reasoning`, others
 * `reasoning_content`.
 */
export const knownMessage = (message: Readonly<Record<string, unknown>>): object => {
  const kept = Object.fromEntries(KNOWN.flatMap((name) => (message[name] == null ? [] : [[name, message[name]]])))
  const { tool_calls: calls } = kept
  return {
    ...kept,
    ...(kept.reasoning_content === undefined && message.reasoning != null && { reasoning_content: message.reasoning }),
    ...(Array.isArray(calls) && { tool_calls: calls.map(knownCall) }),
  }
}
