import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { tarArchive } from '../src/tar.js'

const FILES = { 'a.txt': 'hello', 'folder/b.bin': Uint8Array.from({ length: 1025 }, (_, i) => i % 251) }

it('writes regular files in the format ustar, which tar lists and extracts', () => {
  const archive = tarArchive(FILES)
  const tar = (...args: readonly string[]): Buffer => execFileSync('tar', args, { input: archive })
  expect(tar('-tf', '-').toString().trim().split('\n')).toEqual(Object.keys(FILES))
  expect(tar('-xOf', '-', 'a.txt').toString()).toBe('hello')
  expect(Uint8Array.from(tar('-xOf', '-', 'folder/b.bin'))).toEqual(FILES['folder/b.bin'])
})

it('marks each header: type 0 without a link, the name of the format, and the sum of its bytes', () => {
  const header = tarArchive(FILES).subarray(0, 512)
  const text = (from: number, to: number): string => Buffer.from(header.subarray(from, to)).toString('latin1')
  expect(text(156, 157)).toBe('0')
  expect(text(157, 257)).toBe('\0'.repeat(100))
  expect(text(257, 265)).toBe('ustar\0' + '00')
  const sum = header.reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0)
  expect(Number.parseInt(text(148, 154), 8)).toBe(sum)
})

it('refuses names of more than 100 bytes', () => {
  expect(() => tarArchive({ ['é'.repeat(51)]: '' })).toThrow(RangeError)
})
