/** Agents of packages that are too large for a development dependency. */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk'
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { z } from 'zod'

const DESCRIPTION = 'Looks up the code.'

/** Mastra's agent. */
export const mastra = async (question, baseURL, codeOf) => {
  const execute = async () => codeOf(question)
  const agent = new Agent({
    ...{ id: 'clerk', name: 'clerk', instructions: 'Answer with a code.' },
    model: createOpenAICompatible({ name: 'any', baseURL, apiKey: 'none' })('gpt-4o-mini'),
    tools: { lookup: createTool({ id: 'lookup', description: DESCRIPTION, inputSchema: z.object({}), execute }) },
  })
  const { text } = await agent.generate(question, { maxSteps: 3 })
  return text
}

const home = mkdtempSync(join(tmpdir(), 'claude-home-'))

/** The Claude Agent SDK, whose agent is a program of its own. */
export const claudeAgentSdk = async (question, baseURL, codeOf) => {
  const lookup = tool('lookup', DESCRIPTION, {}, async () => ({ content: [{ type: 'text', text: codeOf(question) }] }))
  const env = {
    ...{ PATH: process.env.PATH, HOME: home, ANTHROPIC_BASE_URL: baseURL, ANTHROPIC_API_KEY: 'none' },
    ...{ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' },
  }
  const options = {
    ...{ model: 'claude-sonnet', systemPrompt: 'Answer with a code.', maxTurns: 3, cwd: home, env },
    mcpServers: { desk: createSdkMcpServer({ name: 'desk', tools: [lookup] }) },
    ...{ tools: [], allowedTools: ['mcp__desk__lookup'], settingSources: [], persistSession: false },
  }
  let answer = ''
  for await (const event of query({ prompt: question, options }))
    if (event.type === 'result') answer = event.result ?? ''
  return answer
}
