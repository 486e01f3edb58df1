/** Agents that search by tags. */
import { type AgentKind, between, textCall, textTool, unclosed } from './kind.js'

const PROMPT = `Answer the question. Think first, inside <think> and </think>. If you lack knowledge, call a search
engine by <search> query </search>. The results follow in <information> and </information>. Search
as often as you need. Then give the answer inside <answer> and </answer>, without explanations.`

/** The first closing tag ends a reply. */
const CLOSING = ['</search>', '</answer>'] as const

/** The kind of `SearchR1Agent`: one search per turn, and an answer that ends the conversation. */
export const SEARCH: AgentKind = {
  name: 'searchr1',
  tools: 'prompt',
  systemPrompt: PROMPT,
  reader: (tools) => {
    const target = textTool('SearchR1Agent', tools, 'search')
    return (text) => {
      const ends = CLOSING.map((tag) => text.indexOf(tag)).filter((at) => at >= 0)
      const first = ends.length === 0 ? text : text.slice(0, Math.min(...ends) + CLOSING[0].length)
      const query = between(first, 'search')
      if (query !== undefined) return { calls: [textCall(target, query.trim())], end: 'continue' }
      if (between(first, 'answer') !== undefined) return { calls: [], end: 'terminal' }
      return { calls: unclosed(first, 'search'), end: 'continue' }
    }
  },
  results: { role: 'user' },
  cutAfter: CLOSING,
}
