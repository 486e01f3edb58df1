/**
 * Agents as people write them, one per library. They know a base address, and nothing of Tandem.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { tool as langchainTool } from '@langchain/core/tools'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, AgentsError, tool as agentsTool, OpenAIResponsesModel, run, setTracingDisabled } from '@openai/agents'
import { tool as aiTool, generateText, stepCountIs, streamText } from 'ai'
import OpenAI from 'openai'
import { z } from 'zod'
import { codeOf } from './table.mjs'

setTracingDisabled(true)

/** Answers a question with an API at an address. */
export type AskAgent = (question: string, baseURL: string) => Promise<string>

const schema = z.object({})

const DESCRIPTION = 'Looks up the code.'

const MOST_TURNS = 3

/** The AI SDK, whose answers are streamed for every second question. */
export const aiSdk: AskAgent = async (question, baseURL) => {
  const request = {
    model: createOpenAICompatible({ name: 'any', baseURL, apiKey: 'none' })('gpt-4o-mini'),
    system: 'Answer with a code.',
    prompt: question,
    tools: { lookup: aiTool({ description: DESCRIPTION, inputSchema: schema, execute: async () => codeOf(question) }) },
    stopWhen: stepCountIs(MOST_TURNS),
  }
  return question.length % 2 === 0 ? (await generateText(request)).text : streamText(request).text
}

/** OpenAI's Agents SDK, which speaks the Responses API. */
export const openAIAgents: AskAgent = async (question, baseURL) => {
  const agent = new Agent({
    name: 'clerk',
    instructions: 'Answer with a code.',
    model: new OpenAIResponsesModel(new OpenAI({ baseURL, apiKey: 'none' }), 'gpt-4o-mini'),
    tools: [
      agentsTool({
        name: 'lookup',
        description: DESCRIPTION,
        parameters: schema,
        execute: async () => codeOf(question),
      }),
    ],
  })
  try {
    const { finalOutput } = await run(agent, question, { maxTurns: MOST_TURNS + 3 })
    return finalOutput ?? ''
  } catch (error) {
    if (error instanceof AgentsError) return '' // such as a call of an unknown tool: a wrong answer
    throw error
  }
}

/** LangGraph's agent, which speaks the chat API. */
export const langGraph: AskAgent = async (question, baseURL) => {
  const llm = new ChatOpenAI({ model: 'gpt-4o-mini', apiKey: 'none', configuration: { baseURL } })
  const tools = [langchainTool(async () => codeOf(question), { name: 'lookup', description: DESCRIPTION, schema })]
  const agent = createReactAgent({ llm, tools, prompt: 'Answer with a code.' })
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: question }] })
  return messages.at(-1)?.text ?? ''
}

/** A loop over Anthropic's client. */
export const anthropic: AskAgent = async (question, baseURL) => {
  const client = new Anthropic({ baseURL, apiKey: 'none' })
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }]
  for (let turn = 0; ; turn++) {
    const { content } = await client.messages.create({
      ...{ model: 'claude-sonnet', max_tokens: 64, system: 'Answer with a code.', messages },
      tools: [
        {
          name: 'lookup',
          description: DESCRIPTION,
          input_schema: { type: 'object' },
        },
      ],
    })
    const uses = content.flatMap((block) => (block.type === 'tool_use' ? [block] : []))
    if (uses.length === 0 || turn === MOST_TURNS)
      return content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    const results = uses.map(({ id }) => ({
      ...{ type: 'tool_result' as const, tool_use_id: id, content: codeOf(question) },
    }))
    messages.push({ role: 'assistant', content }, { role: 'user', content: results })
  }
}
