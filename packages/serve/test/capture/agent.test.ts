/** The user's own agent: programs that work, fail, hang and go on after their end. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { chatTemplate, type LLMEngine, type OpenAgent, sessionTrajectories } from '@tandem-rl/text'
import { afterEach, describe, expect, it } from 'vitest'
import { saying, scripted, servedText, until } from '../../../../test/kit/served.js'
import { type CaptureAgentOptions, capture } from '../../src/capture/agent.js'
import type { AgentContext } from '../../src/capture/program.js'

const open: OpenAgent[] = []

afterEach(async () => {
  for (const agent of open.splice(0)) await agent.close()
})

const opened = async (options: CaptureAgentOptions, engine: LLMEngine = saying('hello')): Promise<OpenAgent> => {
  const agent = await capture({ toolCalls: 'hermes', ...options }).open({ engine, text: servedText })
  open.push(agent)
  return agent
}

const attempt = (id: string) => ({
  ...{ id, group: 'g', task: { id, query: `${id}?`, answer: '' }, key: keyFromSeed(1) },
  ...{ temperature: 1, maxNewTokens: 16 },
})

const asked = async (baseUrl: string, content: string, more: object = {}): Promise<string> => {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content }], ...more }),
  })
  const { choices } = (await response.json()) as {
    readonly choices?: readonly { readonly message: { readonly content: string } }[]
  } // as a chat answers
  return choices === undefined ? `refused with ${response.status}` : choices[0]!.message.content
}

describe('a program', () => {
  it('plays an attempt, sampled as the run says, whatever it asks for', async () => {
    const agent = await opened({
      run: async ({ query }, { baseUrl }) => asked(baseUrl, query, { temperature: 0, seed: 7, max_tokens: 3 }),
    })
    const { session, result } = await agent.play(attempt('a'))
    expect([result, session.end]).toEqual([expect.stringMatching(/^hel/), { status: 'ok', reason: null }])
    expect(session.calls[0]!.sampling).toMatchObject({ temperature: 1, maxTokens: 3 })
    const greedy = await opened({
      run: async ({ query }, { baseUrl }) => asked(baseUrl, query, { max_tokens: 32_000 }),
    })
    const { session: limited } = await greedy.play(attempt('a')) // more than the model's context
    expect([limited.end?.status, limited.calls[0]!.sampling.maxTokens]).toEqual(['ok', 16])
    const [first, second] = await Promise.all(
      ['b', 'c'].map((id) => agent.play({ ...attempt(id), key: keyFromSeed(2) })),
    )
    expect(first!.session.calls[0]!.sampling.key).not.toBe(session.calls[0]!.sampling.key)
    expect(first!.session.calls[0]!.sampling.key).toBe(second!.session.calls[0]!.sampling.key)
  })

  it('that requires a tool call is refused, or answered as auto and counted', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
    const run = ({ query }: { readonly query: string }, { baseUrl }: AgentContext) =>
      asked(baseUrl, query, { tools, tool_choice: 'required' })
    const strict = await opened({ run })
    expect((await strict.play(attempt('a'))).result).toBe('refused with 400')
    expect(strict.relaxedToolChoices).toBeUndefined()
    const agent = await opened({ run, toolChoiceRequired: 'auto' })
    expect((await agent.play(attempt('a'))).result).toMatch(/^hel/)
    expect(agent.relaxedToolChoices!()).toBe(1)
  })

  it('that throws or makes calls after its end fails by name, and the others go on', async () => {
    let goOn = (): void => {}
    let late: Promise<string> = Promise.resolve('')
    const agent = await opened({
      run: async ({ id, query }, { baseUrl }) => {
        const answer = await asked(baseUrl, query)
        if (id === 'throws') throw new TypeError('no such tool')
        if (id === 'late')
          late = new Promise<void>((resolve) => {
            goOn = resolve
          }).then(() => asked(baseUrl, 'more'))
        return answer
      },
    })
    const played = await Promise.all(['fine', 'throws', 'late'].map((id) => agent.play(attempt(id))))
    expect(played.map(({ session }) => session.end)).toEqual([
      { status: 'ok', reason: null },
      {
        status: 'failed',
        reason: expect.stringMatching(/^the program failed: TypeError: no such tool \(at .*:\d+:\d+\)$/),
      },
      { status: 'ok', reason: null },
    ])
    goOn()
    expect(await late).toBe('refused with 409')
    expect(agent.lateCalls()).toBe(1)
    expect(played[2]!.session.calls).toHaveLength(1)
    await agent.drop(['fine'])
    expect((await agent.play(attempt('fine'))).session.end?.status).toBe('ok')
  })

  it('that hangs fails at its time limit, or when the run ends', async () => {
    const signals: AbortSignal[] = []
    const hang = async (_: unknown, { signal }: AgentContext): Promise<void> => {
      signals.push(signal)
      await new Promise(() => {})
    }
    const hasty = await opened({ run: hang, timeoutMs: 20 })
    const [a, b] = await Promise.all(['a', 'b'].map((id) => hasty.play(attempt(id))))
    for (const { session } of [a!, b!])
      expect(session.end).toEqual({ status: 'failed', reason: 'the program did not end within 20 ms' })
    const patient = await opened({ run: hang, maxConcurrent: 1 })
    const [running, waiting] = ['a', 'b'].map((id) => patient.play(attempt(id)))
    await until(() => signals.length === 3)
    await patient.close()
    expect((await running)!.session.end?.reason).toBe('the run was ended')
    expect((await waiting)!.session.end?.reason).toBe('the run was ended')
    expect(signals.every(({ aborted }) => aborted)).toBe(true)
  })

  it('that ends before its calls are answered fails, and the calls are aborted', async () => {
    const engine = saying('x'.repeat(50), { beforeToken: (_, t) => (t < 2 ? undefined : new Promise(() => {})) })
    const agent = await opened(
      {
        run: async (_, { baseUrl }) => {
          asked(baseUrl, 'never').catch(() => {})
          await until(() => engine.running() === 1)
        },
      },
      engine,
    )
    const { session } = await agent.play(attempt('a'))
    expect(session.end).toEqual({ status: 'failed', reason: 'the program ended while 1 call was unanswered' })
    await until(() => engine.running() === 0)
  })

  it('may have sub-agents at the same time: each branch of the session is token-exact', async () => {
    const engine = scripted({ says: ({ prompt }) => `said ${prompt.length}`, maxModelLength: 2048 })
    const agent = await opened(
      {
        run: async (_, { baseUrl }) => {
          const plan = await asked(baseUrl, 'plan')
          const go = (content: string) =>
            asked(baseUrl, '', {
              messages: [
                { role: 'user', content: 'plan' },
                { role: 'assistant', content: plan },
                { role: 'user', content },
              ],
            })
          return (await Promise.all(['left', 'right', 'other'].map(go))).join(' ')
        },
      },
      engine,
    )
    const { session } = await agent.play(attempt('a'))
    const { trajectories, splits, unused } = sessionTrajectories(session)
    expect([splits, unused, trajectories.length]).toEqual([[], [], 3])
    const decode = (row: (typeof trajectories)[number]): string =>
      servedText.tokenizer.decode(
        row.ids.filter((_, i) => row.mask[i] === 1),
        'keep',
      )
    const learned = trajectories.map(decode)
    // The plan is learned once.
    expect(learned.filter((text) => text.split('said').length === 3)).toHaveLength(1)
    expect(new Set(session.calls.map(({ sampling }) => sampling.key)).size).toBe(4)
  })
})

describe('tools of a model whose template shows none', () => {
  const bare = orThrow(chatTemplate('{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}'))
  const openedBare = async (options: CaptureAgentOptions, engine: LLMEngine = saying('hello')) => {
    const agent = await capture(options).open({ engine, text: { ...servedText, template: bare } })
    open.push(agent)
    return agent
  }
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]

  it('are refused before the first attempt if their format is given', async () => {
    await expect(openedBare({ run: () => 1, toolCalls: 'hermes' })).rejects.toThrow("toolPrompt: 'hermes'")
    await expect(openedBare({ run: () => 1, toolCalls: 'none' })).resolves.toBeDefined()
  })

  it('end the first attempt that sends them, and no other one is played', async () => {
    let runs = 0
    const agent = await openedBare({
      run: async ({ query }, { baseUrl }) => {
        runs++
        return asked(baseUrl, query, { tools }) // the program continues after the refusal
      },
    })
    const ends = []
    for (const id of ['a', 'b', 'c']) ends.push((await agent.play(attempt(id))).session.end)
    const refusal = { status: 'failed', reason: expect.stringContaining("toolPrompt: 'hermes'") }
    expect([ends, runs]).toEqual([[refusal, refusal, refusal], 1])
  })

  it('are written into the system message where `toolPrompt` is set', async () => {
    const engine = saying('<tool_call>{"name": "weather", "arguments": {}}</tool_call>')
    const agent = await openedBare(
      { run: async ({ query }, { baseUrl }) => asked(baseUrl, query, { tools }), toolPrompt: 'hermes' },
      engine,
    )
    const { session } = await agent.play({ ...attempt('a'), maxNewTokens: 100 })
    expect(session.end).toEqual({ status: 'ok', reason: null })
    expect(servedText.tokenizer.decode(session.calls[0]!.prompt, 'keep')).toMatch(/^system: # Tools\n[\s\S]*"weather"/)
    expect(session.calls[0]!.completions[0]!.answer.calls).toMatchObject([{ name: 'weather' }])
    expect(() => capture({ run: () => 1, toolPrompt: 'hermes', toolCalls: 'mistral' })).toThrow(
      "toolCalls must be the format of toolPrompt, 'hermes', got 'mistral'",
    )
  })
})

describe('a process', () => {
  const node = (code: string): readonly string[] => [process.execPath, '-e', code]

  it('reads the question and prints its answer; the environment names the server', async () => {
    const code = `
      let query = ''
      process.stdin.on('data', (text) => { query += text }).on('end', async () => {
        const post = (base, path, more) => fetch(base + path, { method: 'POST', headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'any', messages: [{ role: 'user', content: query }], ...more }) }).then((x) => x.json())
        const { choices } = await post(process.env.OPENAI_BASE_URL, '/chat/completions')
        const { content } = await post(process.env.ANTHROPIC_BASE_URL, '/v1/messages', { max_tokens: 16 })
        console.log(query, choices[0].message.content, content[0].text, process.env.EXTRA)
      })`
    const agent = await opened({ command: node(code), env: { EXTRA: 'more' } })
    const { session, result } = await agent.play(attempt('a'))
    expect([result, session.end?.reason, session.calls.length]).toEqual(['a? hello hello more', null, 2])
  })

  it('that exits with a code, hangs, says too much or does not exist fails by name', async () => {
    const ends = async (command: readonly string[], timeoutMs = 20_000) => {
      const agent = await opened({ command, timeoutMs })
      return (await agent.play(attempt('a'))).session.end?.reason
    }
    expect(await ends(node("console.error('no key'); process.exit(3)"))).toMatch(
      /^the program failed: Error: the process ended with code 3: no key/,
    )
    expect(await ends(node('setInterval(() => {}, 1000)'), 300)).toBe('the program did not end within 300 ms')
    expect(await ends(node("process.stdout.write('x'.repeat(2 ** 21)); setInterval(() => {}, 1000)"))).toMatch(
      /wrote more than 1048576 bytes/,
    )
    expect(await ends(['no-such-program-here'])).toMatch(/there is no such program/)
  })
})

describe('capture', () => {
  it('refuses options that cannot be', () => {
    expect(() => capture({} as never)).toThrow('expected run, a function, or command, a list')
    expect(() => capture({ command: [] })).toThrow('command must not be empty')
    expect(() => capture({ run: () => 1, timeoutMs: 0 })).toThrow('timeoutMs must be positive')
    expect(() => capture({ run: () => 1, time: 3 } as never)).toThrow("'time'")
  })
})
