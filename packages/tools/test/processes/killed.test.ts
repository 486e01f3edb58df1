/** Programs and sandboxes (`processResource`, `sandboxResource`) end with a killed holder. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { compiled } from '../../../../test/kit/compiled.js'
import { describeSandboxed, processesWith, temporaryFolders } from '../../../../test/kit/sandboxes.js'

const MARK = `killed-leases-${process.pid}`

describeSandboxed('a program with leased and idle resources', () => {
  it.each(['SIGKILL', 'SIGTERM'] as const)('%s leaves no process and no folder', async (signal) => {
    const before = temporaryFolders()
    const holder = spawn(process.execPath, [compiled('test/kit/leasesMain.ts'), MARK], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [said] = await once(holder.stdout, 'data')
    expect(String(said)).toBe('leased\n')
    // The holder, two programs with a child each, and two sandboxes.
    expect(processesWith(MARK).length).toBeGreaterThanOrEqual(7)
    holder.kill(signal)
    await once(holder, 'exit')
    await expect.poll(() => processesWith(MARK), { interval: 200 }).toEqual([])
    expect(temporaryFolders().filter((name) => !before.includes(name))).toEqual([])
  })
})
