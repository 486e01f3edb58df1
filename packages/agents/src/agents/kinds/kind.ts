/** Kinds of agents: how each writes calls of tools in its text, and how it reads their results. */
import type { WrittenCall } from '@tandem-rl/text'
import type { FoldingOptions, Tool } from '@tandem-rl/tools'

/** The calls in a reply. */
export interface ReadReply {
  readonly calls: readonly WrittenCall[]
  /** `terminal`: the reply is a final answer. `continue`: an answer only if it has no call. */
  readonly end: 'continue' | 'terminal'
}

/** Finds the calls in the text of a reply, in time linear in the text. */
export type TextReader = (text: string) => ReadReply

/** The protocol between an agent and its policy. */
export interface AgentKind {
  readonly name: string
  /**
   * `native`: the chat template or the server shows the tools, and calls are in the model's own
   * format. `prompt`: the system prompt shows the tools, and `reader` finds the calls.
   */
  readonly tools: 'native' | 'prompt'
  /** The default system prompt, with a slot `{tools}`. Default: none. */
  readonly systemPrompt?: string
  /** Makes the reader for the agent's tools. Throws RangeError for tools that it cannot call. */
  readonly reader?: (tools: readonly Tool[]) => TextReader
  /** The role of the messages with results, and the text in front of each. */
  readonly results: { readonly role: string; readonly prefix?: string }
  /** A reply is cut behind the first of these texts. Default: it is kept whole. */
  readonly cutAfter?: readonly string[]
  /** The tool whose calls replace the conversation by a summary. Default: none. */
  readonly folding?: FoldingOptions
}

/** Names of the properties of a tool's arguments, required ones first. */
const argumentNames = ({ parameters }: Tool): readonly string[] => {
  const { properties, required } = parameters as { readonly properties?: object; readonly required?: unknown } // a JSON schema
  const all = Object.keys(properties ?? {})
  const needed = Array.isArray(required) ? all.filter((name) => required.includes(name)) : []
  return [...needed, ...all.filter((name) => !needed.includes(name))]
}

/**
 * The tool that an agent calls with a single text, and the argument that takes the text: the tool
 * of this name, or the only tool.
 *
 * Errors   throws RangeError if there is no such tool, or it takes no argument.
 */
export const textTool = (
  agent: string,
  tools: readonly Tool[],
  name: string,
): { readonly tool: Tool; readonly argument: string } => {
  const found = tools.find((tool) => tool.name === name) ?? (tools.length === 1 ? tools[0] : undefined)
  if (found === undefined) {
    const names = tools.map((tool) => tool.name).join(', ')
    throw new RangeError(`${agent}: expected a tool named '${name}' or a single tool, got ${names || 'none'}`)
  }
  const argument = argumentNames(found)[0]
  if (argument === undefined) throw new RangeError(`${agent}: the tool '${found.name}' takes no argument`)
  return { tool: found, argument }
}

/** A call with one text argument. */
export const textCall = ({ tool, argument }: ReturnType<typeof textTool>, text: string): WrittenCall => ({
  name: tool.name,
  arguments: JSON.stringify({ [argument]: text }),
})

/**
 * The text between the first opening tag and the next closing tag. `undefined` if there is no such
 * pair.
 *
 * Cost     linear in the text.
 */
export const between = (text: string, tag: string): string | undefined => {
  const inside = after(text, tag)
  const end = inside?.indexOf(`</${tag}>`) ?? -1
  return end < 0 ? undefined : inside?.slice(0, end)
}

const after = (text: string, tag: string): string | undefined => {
  const start = text.indexOf(`<${tag}>`)
  return start < 0 ? undefined : text.slice(start + tag.length + 2)
}

/** The malformed call of a text whose opening tag has no closing tag, or no call. */
export const unclosed = (text: string, tag: string): readonly WrittenCall[] => {
  const inside = after(text, tag)
  if (inside === undefined) return []
  return [{ name: '', arguments: inside.trim(), problem: `<${tag}> has no closing tag </${tag}>` }]
}
