/** Tools that end an episode, and the tool of summaries. */
import { z } from 'zod'
import { type Tool, tool } from './tool.js'

const ANSWERS = {
  answer: 'Gives the final answer and ends the conversation.',
  answer_math:
    'Gives the final answer to a problem of mathematics, as a number or in LaTeX, and ends the conversation.',
  answer_qa: 'Gives the final answer to a question, in a few words, and ends the conversation.',
} as const

/**
 * Makes the tool of the final answer, which ends the episode. Rewards read the answer as
 * `prediction`.
 *
 * Source   AgentFly `answer`, `answer_math`, `answer_qa`.
 *
 * @example
 * answerTool('answer_math').name // 'answer_math'
 */
export const answerTool = (name: keyof typeof ANSWERS = 'answer'): Tool =>
  tool({
    name,
    description: ANSWERS[name],
    parameters: { answer: z.string().max(100_000) },
    initial: null,
    run: async ({ answer }) => ({ content: answer, status: 'finish', state: null }),
  })

/**
 * Makes the tool by which a policy writes a summary of its work. Its state is the latest summary,
 * which agents with a folded context put in place of the messages before it.
 *
 * Source   AgentFly `summarize`.
 *
 * @example
 * summarizeTool().initial // null
 */
export const summarizeTool = (): Tool =>
  tool<{ readonly summary: z.ZodString }, string | null>({
    name: 'summarize',
    description: 'Replaces the conversation so far by a summary. Write down everything that you still need.',
    parameters: { summary: z.string().min(1).max(100_000) },
    initial: null,
    run: async ({ summary }) => ({ content: 'The conversation was summarized.', state: summary }),
  })
