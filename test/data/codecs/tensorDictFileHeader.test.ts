/**
 * Headers that no program of ours writes, with checksums that are right: law 86 for a hostile file.
 */
import { crc32 } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { formatHeader, type NodePlan } from '../../../src/data/codecs/tensorDictFileHeader.js'
import { decodeTensorDict } from '../../../src/data/codecs/tensorDictFileRead.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const payload = new Uint8Array(68).fill(1)
const block = (begin: number, end: number): object => ({ begin, end, crc: crc32(payload.subarray(begin, end)) })
const tensor = (over: object = {}): object => ({
  kind: 'tensor',
  type: 'int32',
  shape: [1],
  values: block(0, 4),
  ...over,
})
const node = (entries: readonly unknown[], over: object = {}): object => ({
  kind: 'node',
  batchShape: [],
  entries,
  ...over,
})

const reasonOf = (tree: object, bytes = 68): string => {
  const header = formatHeader(tree as NodePlan, bytes) // also what is none
  const { result } = scope(() => {
    const decoded = decodeTensorDict(Buffer.concat([header, payload.subarray(0, bytes)]))
    return { result: decoded._tag === 'Left' ? decoded.left.reason : 'accepted' }
  })
  return result
}

const nested = (levels: number): object => {
  let tree = node([])
  for (let i = 0; i < levels; i++) tree = node([['a', tree]])
  return tree
}

describe('a file with a right checksum', () => {
  it('is read if the header is right', () => {
    expect(reasonOf(node([['a', tensor()]]), 4)).toBe('accepted')
    expect(
      reasonOf(
        node([
          ['a', tensor()],
          ['b', tensor({ values: block(64, 68) })],
        ]),
      ),
    ).toBe('accepted')
  })

  it.each<[string, object, RegExp]>([
    [
      'blocks that overlap',
      node([
        ['a', tensor()],
        ['b', tensor()],
      ]),
      /begins at byte 0 instead of 64/,
    ],
    ['a gap', node([['a', tensor({ values: block(64, 68) })]]), /begins at byte 64 instead of 0/],
    [
      'a block out of range',
      node([['a', tensor({ shape: [32], values: block(0, 128) })]]),
      /ends at byte 128, but there are only 68/,
    ],
    ['bytes at the end', node([['a', tensor()]]), /64 bytes follow the last block/],
    ['a block that ends before it begins', node([['a', tensor({ values: block(4, 0) })]]), /-4 bytes for int32/],
    [
      'sizes whose product is beyond every number',
      node([['a', tensor({ shape: [2 ** 40, 2 ** 40] })]]),
      /4 bytes for int32/,
    ],
    [
      'a batch shape that is',
      node([['a', tensor()]], { batchShape: [2 ** 40, 2 ** 40] }),
      /more elements than can be counted/,
    ],
    [
      'a shape without the batch shape',
      node([['a', tensor()]], { batchShape: [2] }),
      /does not begin with the batch shape/,
    ],
    [
      "a node without its parent's batch shape",
      node([['n', node([])]], { batchShape: [2] }),
      /"n": batch shape \[\] does not/,
    ],
    [
      'a key twice',
      node([
        ['a', tensor()],
        ['a', tensor()],
      ]),
      /"a" is a duplicate key/,
    ],
    ['a kind that does not exist', node([['a', tensor({ kind: 'code' })]]), /^"a": /],
    ['an unknown field', node([['a', tensor({ more: 1 })]]), /more/],
    ['a negative place', node([['a', tensor({ values: { begin: -4, end: 0, crc: 0 } })]]), /begin/],
    ['a tree of 1000 levels', nested(1000), /more than 200 levels/],
    ['no tree', [], /the root/],
    [
      'a wrong checksum of a block',
      node([
        ['a', tensor({ values: { begin: 0, end: 4, crc: 0 } })],
        ['b', tensor({ values: block(64, 68) })],
      ]),
      /"a": the data is damaged/,
    ],
    ['values that are no JSON', node([['a', { kind: 'meta', codec: 'plain', value: block(0, 68) }]]), /^"a": /],
    [
      'rows that do not fit',
      node([['a', { kind: 'ragged', type: 'bool', lengths: block(0, 4), values: block(64, 68) }]]),
      /row 0 of 16843009 elements/,
    ],
  ])('is refused for %s', (_, tree, reason) => {
    expect(reasonOf(tree)).toMatch(reason)
  })
})
