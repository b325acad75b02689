/** A table of networks in CIDR notation, IPv4 and IPv6: finds the networks of an address with a few map look-ups. */
import { isIPv6 } from 'node:net';

/** One map per prefix length in use, longest first; the keys are the leading bits (`leadingBits`). */
export class PrefixTable<T> {
  readonly #levels: { family: 4 | 6; bits: number; records: Map<string | number, T[]> }[] = [];

  /** Returns false, and adds nothing, when the text is neither an address nor a CIDR. */
  add(cidr: string, record: T): boolean {
    const parsed = parseCidr(cidr.trim());
    if (!parsed) return false;
    const { address, bits } = parsed;
    let level = this.#levels.find((l) => l.family === address.family && l.bits === bits);
    if (!level) {
      level = { family: address.family, bits, records: new Map() };
      this.#levels.push(level);
      this.#levels.sort((a, b) => b.bits - a.bits);
    }
    const key = leadingBits(address, bits);
    const records = level.records.get(key);
    if (!records) level.records.set(key, [record]);
    else if (!records.includes(record)) records.push(record);
    return true;
  }

  longest(text: string): readonly T[] {
    const address = parseAddress(text);
    if (!address) return [];
    for (const level of this.#levels) {
      if (level.family !== address.family) continue;
      const found = level.records.get(leadingBits(address, level.bits));
      if (found) return found;
    }
    return [];
  }
}

/** A set of CIDRs. Text that is not an address is in none of them. */
export class AddressRanges {
  readonly #ranges: readonly Cidr[];

  /** Throws one clear sentence for a CIDR that cannot be read. */
  constructor(cidrs: readonly string[]) {
    this.#ranges = cidrs.map((text) => {
      const parsed = parseCidr(text.trim());
      if (!parsed) throw new Error(`"${text}" is neither an IP address nor a CIDR.`);
      return parsed;
    });
  }

  has(text: string): boolean {
    const address = parseAddress(text);
    if (!address) return false;
    return this.#ranges.some(
      (range) =>
        range.address.family === address.family &&
        leadingBits(range.address, range.bits) === leadingBits(address, range.bits),
    );
  }
}

/** An IPv4 address as a number, an IPv6 address as 32 hexadecimal digits. */
type Address = { family: 4; value: number } | { family: 6; digits: string };

interface Cidr {
  address: Address;
  bits: number;
}

function leadingBits(address: Address, bits: number): string | number {
  if (address.family === 4) return bits === 0 ? 0 : (address.value & (0xffffffff << (32 - bits))) >>> 0;
  const whole = address.digits.slice(0, bits >> 2);
  const rest = bits & 3;
  if (rest === 0) return whole;
  const digit = Number.parseInt(address.digits.charAt(bits >> 2), 16);
  return whole + (digit & (0xf << (4 - rest))).toString(16);
}

function parseCidr(text: string): Cidr | null {
  const slash = text.indexOf('/');
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (!address) return null;
  const maxBits = address.family === 4 ? 32 : 128;
  const bitsText = slash < 0 ? String(maxBits) : text.slice(slash + 1);
  const bits = Number(bitsText);
  return /^\d{1,3}$/.test(bitsText) && bits <= maxBits ? { address, bits } : null;
}

const mappedPrefix = `${'0'.repeat(20)}ffff`;

/** An IPv4-mapped IPv6 address is treated as the IPv4 address. */
function parseAddress(text: string): Address | null {
  if (!text.includes(':')) return parseV4(text);
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (!isIPv6(bare) || bare.includes('%')) return null;
  const dotted = bare.includes('.') ? bare.slice(bare.lastIndexOf(':') + 1) : '';
  const v4 = dotted === '' ? null : parseV4(dotted);
  const hex = v4?.family === 4 ? bare.slice(0, -dotted.length) + asGroups(v4.value) : bare;
  const [head = '', tail] = hex.split('::');
  const left = digitsOf(head);
  const right = tail === undefined ? '' : digitsOf(tail);
  const digits = (left + '0'.repeat(32 - left.length - right.length) + right).toLowerCase();
  if (digits.startsWith(mappedPrefix)) return { family: 4, value: Number.parseInt(digits.slice(24), 16) };
  return { family: 6, digits };
}

function parseV4(text: string): Address | null {
  let value = 0;
  let octet = -1;
  let octets = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i === text.length ? 0x2e : text.charCodeAt(i);
    if (code === 0x2e) {
      if (octet < 0 || octet > 255) return null;
      value = value * 256 + octet;
      octets++;
      octet = -1;
    } else {
      if (code < 0x30 || code > 0x39) return null;
      octet = Math.max(0, octet) * 10 + code - 0x30;
    }
  }
  return octets === 4 ? { family: 4, value } : null;
}

function asGroups(v4: number): string {
  return `${(v4 >>> 16).toString(16)}:${(v4 & 0xffff).toString(16)}`;
}

function digitsOf(groups: string): string {
  return groups === '' ? '' : groups.split(':').reduce((digits, group) => digits + group.padStart(4, '0'), '');
}
