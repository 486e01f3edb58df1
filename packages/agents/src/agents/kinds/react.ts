/** Agents that alternate between a thought and an action. */
import type { Tool } from '@tandem-rl/tools'
import type { AgentKind, TextReader } from './kind.js'
import { textTool } from './kind.js'

const PROMPT = `Answer the question. You may use these tools:

{tools}

Write a thought, and then either call a tool:

Thought: why you call it
Action: the name of the tool
Input: its arguments as a JSON object

or end with an answer:

Thought: how you know it
Final Answer: the answer`

/** The labels at the beginning of a line, in lower case. */
const LABELS = ['thought', 'action', 'input', 'action input', 'observation', 'final answer'] as const

type Label = (typeof LABELS)[number]

interface Section {
  readonly label: Label
  readonly lines: string[]
}

/** The label of a line and the text behind it, or `undefined` if the line has no label. */
const labelled = (line: string): { readonly label: Label; readonly rest: string } | undefined => {
  const colon = line.indexOf(':')
  if (colon < 0 || colon > LONGEST_LABEL) return undefined
  const word = line.slice(0, colon).trim().toLowerCase()
  const label = LABELS.find((each) => each === word)
  return label && { label, rest: line.slice(colon + 1) }
}

/** Blanks in front of a label included. */
const LONGEST_LABEL = 32

/** Splits a reply at its labels. Text in front of the first label is left out. */
const sectionsOf = (text: string): readonly Section[] => {
  const sections: Section[] = []
  for (const line of text.split('\n')) {
    const found = labelled(line)
    if (found !== undefined) sections.push({ label: found.label, lines: [found.rest] })
    else sections.at(-1)?.lines.push(line)
  }
  return sections
}

/** The text of a section without blanks around it, and without a fence of code. */
const contentOf = ({ lines }: Section): string => {
  const content = lines.join('\n').trim()
  if (!content.startsWith('```') || !content.endsWith('```')) return content
  const [, ...inner] = content.split('\n')
  return inner.slice(0, -1).join('\n').trim()
}

/**
 * Reads Thought / Action / Input. An input that is no JSON object is the single argument of a tool
 * with one argument. Text behind the first action and its input, such as an observation that the
 * policy made up, is not read.
 */
const reader =
  (tools: readonly Tool[]): TextReader =>
  (text) => {
    const sections = sectionsOf(text)
    const at = sections.findIndex(({ label }) => label === 'action')
    if (at < 0) {
      return { calls: [], end: sections.some(({ label }) => label === 'final answer') ? 'terminal' : 'continue' }
    }
    const name = contentOf(sections[at]!)
    const next = sections[at + 1]
    const input = next?.label.endsWith('input') === true ? contentOf(next) : ''
    const tool = tools.find((each) => each.name === name)
    const isPlain = tool !== undefined && input !== '' && !input.startsWith('{')
    const written = isPlain ? JSON.stringify({ [textTool('ReactAgent', [tool], name).argument]: input }) : input
    return { calls: [{ name, arguments: written }], end: 'continue' }
  }

/** The kind of `ReactAgent`. */
export const REACT: AgentKind = {
  name: 'react',
  tools: 'prompt',
  systemPrompt: PROMPT,
  reader,
  results: { role: 'user', prefix: 'Observation: ' },
}
