/** `tandem tinker check`, on a server of ours behind a socket. */
import { orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { type CommandResult, parseJsonLines, tandem, useTemporaryFolder } from '../../../../test/kit/runs.js'
import { tinkerServer } from '../../../../test/kit/tinker.js'

useEngine()
const cwd = useTemporaryFolder()('.')

/** Runs the command on a server that refuses requests with the given text with 400. */
const checked = async (args: readonly string[], refused?: string): Promise<CommandResult> => {
  const app = tinkerServer()
  const answer = async (request: Request): Promise<Response> => {
    const isRefused = refused !== undefined && (await request.clone().text()).includes(refused)
    return isRefused ? Response.json({ detail: 'refused' }, { status: 400 }) : app.fetch(request)
  }
  const server = orThrow(await liveHttpServer(answer, { port: 0, refusal: (_, reason) => reason })())
  try {
    return await tandem(['tinker', 'check', server.url, ...args], { cwd })
  } finally {
    await server.close({ graceMs: 0, atLimit: async () => {} })
    await app.close()
  }
}

describe('tandem tinker check', () => {
  it('prints a line of JSON for each check, and progress to standard error', async () => {
    const { code, stdout, stderr } = await checked(['--base-model', 'toy', '--json'])
    expect(code).toBe(0)
    const lines = parseJsonLines(stdout)
    expect(lines).toHaveLength(24)
    for (const { check, verdict, finding } of lines) {
      expect([verdict, typeof finding]).toEqual(['as expected', 'string'])
      expect(stderr).toContain(`${check as string}: as expected\n`)
    }
  })

  it('prints a table, and exits with 1 if a check failed', async () => {
    const { code, stdout, stderr } = await checked([], '"optimizer":true')
    expect(code).toBe(1)
    expect(stdout).toMatch(/^check +verdict +finding +numbers\n/)
    expect(stdout).toMatch(/^gradient clipping +as expected +\S/m)
    expect(stdout).toMatch(/^checkpoint with optimizer +failed +\S/m)
    expect(stderr).toMatch(/tandem: 1 of 24 checks failed: checkpoint with optimizer\n$/)
  })

  it('refuses a text that is not an address', async () => {
    const { code, stderr } = await tandem(['tinker', 'check', 'nowhere'], { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain("URL: 'nowhere' is not a server address")
  })
})
