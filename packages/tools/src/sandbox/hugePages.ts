/**
 * A program that turns huge pages off for itself and its descendants, and then runs another one.
 *
 * A process that unmaps all but 4 KiB of a huge page holds 2 MiB, of which its resident size shows
 * 4 KiB. No program of the base system can turn them off (prctl PR_SET_THP_DISABLE), so this one is
 * assembled here.
 */

const code = (hex: string): Buffer => Buffer.from(hex.replaceAll(' ', ''), 'hex')

interface Machine {
  /** The number of the processor in an ELF file, EM_X86_64 or EM_AARCH64. */
  readonly machine: number
  /** prctl(41, 1, 0, 0, 0); execve(argv[1], argv + 1, envp); exit(127). */
  readonly instructions: Buffer
}

const MACHINES: Readonly<Record<string, Machine>> = {
  x64: {
    machine: 62,
    instructions: Buffer.concat([
      code('bf 29000000'), // mov edi, 41
      code('be 01000000'), // mov esi, 1
      code('31d2'), // xor edx, edx
      code('4531d2'), // xor r10d, r10d
      code('4531c0'), // xor r8d, r8d
      code('b8 9d000000 0f05'), // mov eax, 157; syscall
      code('488b0424'), // mov rax, [rsp]
      code('488d742410'), // lea rsi, [rsp + 16]
      code('488d54c410'), // lea rdx, [rsp + 8 * rax + 16]
      code('488b3e'), // mov rdi, [rsi]
      code('b8 3b000000 0f05'), // mov eax, 59; syscall
      code('bf 7f000000'), // mov edi, 127
      code('b8 3c000000 0f05'), // mov eax, 60; syscall
    ]),
  },
  arm64: {
    machine: 183,
    instructions: Buffer.concat([
      code('200580d2'), // mov x0, 41
      code('210080d2'), // mov x1, 1
      code('020080d2 030080d2 040080d2'), // mov x2, 0; mov x3, 0; mov x4, 0
      code('e81480d2 010000d4'), // mov x8, 167; svc 0
      code('e90340f9'), // ldr x9, [sp]
      code('e1430091'), // add x1, sp, 16
      code('220c098b'), // add x2, x1, x9, lsl 3
      code('200040f9'), // ldr x0, [x1]
      code('a81b80d2 010000d4'), // mov x8, 221; svc 0
      code('e00f80d2'), // mov x0, 127
      code('a80b80d2 010000d4'), // mov x8, 93; svc 0
    ]),
  },
}

const ELF_HEADER = 64
const PROGRAM_HEADER = 56
const ADDRESS = 0x400000n

/** The largest page size of the processors, to which the kernel aligns segments. */
const ALIGNMENT = 0x10000n

/**
 * Returns an executable for a processor architecture (Node's name), or `undefined` for an
 * unsupported one. Its arguments are the path and the arguments of the program to run.
 *
 * Source   the ELF format for 64 bits; elf.h and prctl.h of Linux.
 *
 * @example
 * noHugePages('s390x') // undefined
 */
export const noHugePages = (architecture: string): Uint8Array | undefined => {
  const known = MACHINES[architecture]
  if (known === undefined) return undefined
  const { machine, instructions } = known
  const headers = Buffer.alloc(ELF_HEADER + PROGRAM_HEADER)
  const size = BigInt(headers.length + instructions.length)
  headers.write('\x7fELF\x02\x01\x01', 'latin1') // 64 bits, little-endian, version 1
  headers.writeUInt16LE(2, 16) // an executable at a fixed address
  headers.writeUInt16LE(machine, 18)
  headers.writeUInt32LE(1, 20)
  headers.writeBigUInt64LE(ADDRESS + BigInt(headers.length), 24) // its first instruction
  headers.writeBigUInt64LE(BigInt(ELF_HEADER), 32)
  headers.writeUInt16LE(ELF_HEADER, 52)
  headers.writeUInt16LE(PROGRAM_HEADER, 54)
  headers.writeUInt16LE(1, 56)
  headers.writeUInt32LE(1, ELF_HEADER) // loads the whole file
  headers.writeUInt32LE(5, ELF_HEADER + 4) // to read and to execute
  headers.writeBigUInt64LE(ADDRESS, ELF_HEADER + 16)
  headers.writeBigUInt64LE(ADDRESS, ELF_HEADER + 24)
  headers.writeBigUInt64LE(size, ELF_HEADER + 32)
  headers.writeBigUInt64LE(size, ELF_HEADER + 40)
  headers.writeBigUInt64LE(ALIGNMENT, ELF_HEADER + 48)
  return Buffer.concat([headers, instructions])
}
