/** Agents that act by tags and fold their context into summaries. */
import { readToolCalls, type WrittenCall } from '@tandem-rl/text'
import { type AgentKind, between, unclosed } from './kind.js'

const PROMPT = `Work on the task step by step. Each reply is one of these:

<action>{"name": "the tool", "arguments": {...}}</action>
<summarize>what you have found out so far</summarize>

A summary replaces the conversation so far, so write everything into it that you still need. When
the task is done, say: end task. The tools:

{tools}`

/** The tool that folds the context. */
const SUMMARIZE = 'summarize'

/** Added to the last message when a segment has had its turns. */
const NOTICE = '\n\nThe conversation is long. Summarize it now: <summarize>...</summarize>'

/** The calls in the JSON object of an action, which is read like one of Hermes' format. */
const actionCalls = (written: string): readonly WrittenCall[] => {
  const { calls } = readToolCalls(`<tool_call>${written}</tool_call>`, 'hermes')
  return calls.length > 0 ? calls.slice(0, 1) : [{ name: '', arguments: written }] // reported as malformed
}

/** The kind of `ActionAgent`. */
export const ACTION: AgentKind = {
  name: 'action',
  tools: 'prompt',
  systemPrompt: PROMPT,
  reader: () => (text) => {
    const summary = between(text, SUMMARIZE)
    if (summary !== undefined)
      return { calls: [{ name: SUMMARIZE, arguments: JSON.stringify({ summary: summary.trim() }) }], end: 'continue' }
    const action = between(text, 'action')
    if (action !== undefined) return { calls: actionCalls(action), end: 'continue' }
    if (text.toLowerCase().includes('end task')) return { calls: [], end: 'terminal' }
    return { calls: [...unclosed(text, SUMMARIZE), ...unclosed(text, 'action')].slice(0, 1), end: 'continue' }
  },
  results: { role: 'user', prefix: 'Result: ' },
  cutAfter: [`</${SUMMARIZE}>`, '</action>'],
  folding: { tool: SUMMARIZE, argument: 'summary', notice: NOTICE },
}
