/** Control groups for sandboxes, in a folder with the files of a hierarchy. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { SANDBOX_LIMITS } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { controlGroup, delegatedGroup } from '../../src/sandbox/controlGroup.js'

const path = useTemporaryFolder()

let count = 0

interface Hierarchy {
  readonly controllers?: string
  readonly enabled?: string
  readonly members?: readonly number[]
  /** The group of this process, below the root of the hierarchy. */
  readonly own?: string
}

/** Writes the files of a group, and those by which this process finds it. */
const hierarchy = ({
  controllers = 'cpu memory pids',
  enabled = '',
  members = [process.pid],
  own = 'job',
}: Hierarchy) => {
  const root = path(`hierarchy-${count++}`)
  const folder = `${root}/${own}`
  mkdirSync(folder, { recursive: true })
  for (const each of new Set([folder, root, `${root}/job`])) {
    writeFileSync(`${each}/cgroup.controllers`, controllers)
    writeFileSync(`${each}/cgroup.subtree_control`, enabled)
    writeFileSync(`${each}/cgroup.procs`, members.join('\n'))
  }
  const [membership, mounts] = [`${root}/membership`, `${root}/mounts`]
  writeFileSync(membership, `8:pids:/other\n0::/outer/${own}\n`)
  writeFileSync(mounts, `23 1 0:22 / /proc rw - proc proc rw\n29 23 0:26 /outer ${root} rw - cgroup2 cgroup rw\n`)
  return { root, folder, files: { membership, mounts } }
}

describe('a delegated group', () => {
  it('of this process alone is used, after this process has moved below it', () => {
    const { folder, files } = hierarchy({})
    expect(delegatedGroup(files)).toBe(folder)
    expect(readFileSync(`${folder}/tandem/cgroup.procs`, 'utf8')).toBe(String(process.pid))
    expect(readFileSync(`${folder}/cgroup.subtree_control`, 'utf8')).toBe('+memory +pids')
  })

  it('is found again by a process that another one moved there', () => {
    const { root, files } = hierarchy({ own: 'job/tandem', enabled: 'memory pids' })
    expect(delegatedGroup(files)).toBe(`${root}/job`)
  })

  it('may hold children of this process', async () => {
    const child = spawn('sleep', ['1000'])
    const { folder, files } = hierarchy({ members: [process.pid, child.pid!] })
    expect(delegatedGroup(files)).toBe(folder)
    child.kill()
    await once(child, 'exit')
  })

  it.each([
    ['with other processes', { members: [process.pid, 1] }],
    ['without the controller of memory', { controllers: 'cpu pids' }],
    ['without the controller of processes', { controllers: 'cpu memory' }],
  ] as const)('%s is not used, and nothing moves', (_, given) => {
    const { folder, files } = hierarchy(given)
    expect(delegatedGroup(files)).toBeNull()
    expect(existsSync(`${folder}/tandem`)).toBe(false)
  })

  it('is not used if it is not visible, or there is no hierarchy of the second version', () => {
    const { root, files } = hierarchy({})
    writeFileSync(files.mounts, `29 23 0:26 /elsewhere ${root} rw - cgroup2 cgroup rw\n`)
    expect(delegatedGroup(files)).toBeNull()
    writeFileSync(files.mounts, `29 23 0:26 / ${root} rw - cgroup cgroup rw,memory\n`)
    expect(delegatedGroup(files)).toBeNull()
    expect(delegatedGroup({ ...files, membership: path('none') })).toBeNull()
  })

  it('loses the empty groups of sandboxes whose process was killed', () => {
    const { folder, files } = hierarchy({})
    mkdirSync(`${folder}/tandem-sandbox-1`)
    mkdirSync(`${folder}/tandem-sandbox-2`)
    writeFileSync(`${folder}/tandem-sandbox-2/cgroup.procs`, '1') // the kernel keeps a group in use
    delegatedGroup(files)
    expect(readdirSync(folder).filter((name) => name.startsWith('tandem-'))).toEqual(['tandem-sandbox-2'])
  })
})

describe('the group of a sandbox', () => {
  const made = () => {
    const root = path(`groups-${count++}`)
    mkdirSync(root)
    const group = controlGroup(root, { ...SANDBOX_LIMITS, memoryBytes: 4096, processes: 7 })
    const folder = `${root}/${readdirSync(root)[0]}`
    return { group, folder, file: (name: string) => readFileSync(`${folder}/${name}`, 'utf8') }
  }

  it('limits memory and processes, and takes its first process', () => {
    const { group, file } = made()
    group.add(123)
    expect(['memory.max', 'memory.oom.group', 'pids.max', 'cgroup.procs'].map(file)).toEqual(['4096', '1', '8', '123'])
  })

  it.each([
    ['low 0\noom 0\noom_kill 0\noom_group_kill 0\n', false],
    ['low 0\noom 1\noom_kill 3\noom_group_kill 1\n', true],
  ])('reports the end by its memory', (events, isOut) => {
    const { group, folder } = made()
    writeFileSync(`${folder}/memory.events`, events)
    expect(group.ranOut()).toBe(isOut)
  })

  it('throws if it cannot be made', () => {
    expect(() => controlGroup(path('none'), SANDBOX_LIMITS)).toThrow('ENOENT')
  })
})
