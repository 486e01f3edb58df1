/** Agents that write one block of code, which a tool runs. */
import { codeFences } from '@tandem-rl/text'
import { type AgentKind, textCall, textTool } from './kind.js'

const CODE_PROMPT = `Solve the task. To run Python, write exactly one block of code:

\`\`\`python
print(6 * 7)
\`\`\`

You are shown what it prints. An answer without a block of code ends the conversation.`

const SHELL_PROMPT = `Solve the task in the repository of the working folder. To run a command, write exactly one block:

\`\`\`bash
ls -l
\`\`\`

You are shown what it prints. An answer without a block ends the conversation.`

const UNCLOSED = 'the block of code has no closing fence'

interface FencedOptions {
  readonly name: string
  readonly languages: readonly string[]
  /** The tool that runs the code. */
  readonly tool: string
  readonly systemPrompt: string
}

/**
 * A kind whose replies call a tool with the code of their block. A reply with no block or with
 * several is an answer, and a block without its closing fence is a malformed call.
 */
const fenced = ({ name, languages, tool: toolName, systemPrompt }: FencedOptions): AgentKind => ({
  name,
  tools: 'prompt',
  systemPrompt,
  reader: (tools) => {
    const target = textTool(name, tools, toolName)
    return (text) => {
      const blocks = codeFences(text).filter(({ language }) => languages.includes(language))
      const [block] = blocks
      if (block === undefined || blocks.length > 1) return { calls: [], end: 'continue' }
      const call = textCall(target, block.code)
      return { calls: [block.isClosed ? call : { ...call, problem: UNCLOSED }], end: 'continue' }
    }
  },
  results: { role: 'user', prefix: 'Output: ' },
})

/** The kind of `CodeAgent`. */
export const CODE: AgentKind = fenced({
  name: 'code',
  languages: ['python', 'py'],
  tool: 'code_interpreter',
  systemPrompt: CODE_PROMPT,
})

/** The kind of `BashSWEAgent`. */
export const BASH_SWE: AgentKind = fenced({
  name: 'bash_swe',
  languages: ['bash', 'sh', 'shell'],
  tool: 'run_shell_command',
  systemPrompt: SHELL_PROMPT,
})
