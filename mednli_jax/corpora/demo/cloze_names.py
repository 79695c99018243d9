"""The names of the demo cloze corpus that the table of clinical facts lacks, and how names are written in a sentence.

All names stand in lower case and are those of MeSH concepts.
"""

# Branches of medicine, the first of their conditions in clinical_facts.json (which stand there branch by branch), and
# tests that can show or rule out such conditions.
_SPECIALTIES = """
    cardiovascular medicine: heart failure: electrocardiogram, echocardiogram, holter monitor, exercise stress
        test, cardiac catheterization, coronary angiogram, phonocardiography, angiography
    respiratory medicine: asthma: spirometry, chest x-ray, bronchoscopy, thoracoscopy, polysomnography, pulmonary
        function tests, oximetry, ventilation-perfusion scan
    gastroenterology: gastroesophageal reflux disease: gastroscopy, colonoscopy, capsule endoscopy, sigmoidoscopy,
        laparoscopy, proctoscopy
    hepatology: cholelithiasis: ultrasonography, cholangiography, laparoscopy, elastography, endosonography, liver
        function tests, magnetic resonance cholangiopancreatography
    nephrology: chronic kidney disease: ultrasonography, urinalysis, needle biopsy, urography
    urology: bladder cancer: cystoscopy, urodynamics, urography, cystography, urinalysis
    endocrinology: hyponatremia: scintigraphy, needle biopsy, ultrasonography, urinalysis
    neurology: stroke: electroencephalogram, lumbar puncture, electromyography, nerve conduction study,
        myelography, cerebral angiogram, neurologic examination, magnetoencephalography
    psychiatry: major depression: actigraphy, polysomnography, electroencephalogram, neurologic examination
    infectious diseases: sepsis: blood cultures, microscopy, chest x-ray, lumbar puncture
    haematology and oncology: iron deficiency anemia: flow cytometry, bone marrow examination, pet scan,
        microscopy, genetic testing, mammogram
    rheumatology: rheumatoid arthritis: arthroscopy, capillaroscopy, scintigraphy, electromyography
    dermatology: psoriasis: dermoscopy, skin tests, patch tests, microscopy
    obstetrics and gynaecology: uterine fibroids: hysteroscopy, laparoscopy, colposcopy, ultrasonography,
        hysterosalpingography, pap smear
    ophthalmology: glaucoma: ophthalmoscopy, gonioscopy, slit lamp examination, optical coherence tomography,
        fluorescein angiography, electroretinography
    otolaryngology: sinusitis: audiometry, laryngoscopy, otoscopy, electronystagmography, rhinomanometry,
        sialography
    orthopaedics: osteoarthritis: arthroscopy, arthrography, radiography, scintigraphy, myelography
"""
SPECIALTIES = tuple(
    (specialty, first, tuple(tests.split(", ")))
    for specialty, first, tests in (
        " ".join(line.split()).split(": ") for line in _SPECIALTIES.replace("\n        ", " ").strip().splitlines()
    )
)
GENERAL_TESTS = ("ct scan", "magnetic resonance imaging", "biopsy", "physical examination", "fluoroscopy")

# Diseases of relatives, of travellers, and that a test rules out, besides the conditions of the table of facts.
_FURTHER = """
    achondroplasia, acidosis, actinomycosis, agoraphobia, albinism, alkalosis, alkaptonuria, alopecia areata, altitude
    sickness, amblyopia, amebiasis, amyloidosis, angioedema, aniridia, anisometropia, anthrax, aortitis, arachnoiditis,
    arteriosclerosis, arthrogryposis, asbestosis, ascariasis, aspergillosis, astigmatism, astrocytoma, atherosclerosis,
    balanitis, beriberi, blastomycosis, blepharitis, botulism, bronchopneumonia, brucellosis, bruxism, bulimia,
    bursitis, byssinosis, calciphylaxis, candidiasis, carbon monoxide poisoning, cataplexy, catatonia, cerebral palsy,
    chancroid, cheilitis, chickenpox, choledocholithiasis, cholera, cholestasis, cholesteatoma, chondrosarcoma, chorea,
    choroiditis, chylothorax, cluster headache, coccidioidomycosis, croup, cryoglobulinemia, cryptococcosis,
    cryptorchidism, cysticercosis, cystinuria, cystitis, dacryocystitis, decompression sickness, dengue, dextrocardia,
    diabetes insipidus, diphtheria, dracunculiasis, dyskeratosis congenita, dyslexia, dysthymic disorder, dystonia,
    echinococcosis, eclampsia, ectropion, elephantiasis, encephalomyelitis, endometritis, endophthalmitis, enterobiasis,
    entropion, eosinophilia, ependymoma, epididymitis, epiglottitis, ergotism, erysipelas, erythema multiforme, erythema
    nodosum, erythrasma, esotropia, exotropia, fabry disease, fascioliasis, favism, felty syndrome, fibrosarcoma,
    filariasis, flatfoot, folliculitis, frostbite, galactosemia, gangrene, gas gangrene, gastrinoma, gaucher disease,
    giardiasis, gingivitis, glioblastoma, granuloma annulare, gynecomastia, hallux valgus, heat stroke, hemangioma,
    hemangiosarcoma, hemobilia, hemothorax, hepatoblastoma, hepatolenticular degeneration, hidradenitis suppurativa,
    hirschsprung disease, histoplasmosis, hordeolum, huntington disease, hydrocephalus, hyperaldosteronism,
    hypercalcemia, hyperemesis gravidarum, hyperhidrosis, hypernatremia, hyperprolactinemia, hyperuricemia,
    hypoaldosteronism, hypogonadism, hypokalemia, hypoparathyroidism, hypophosphatemia, hypopituitarism, hypospadias,
    hypothermia, ichthyosis, ileus, impetigo, insulinoma, intussusception, iritis, kartagener syndrome, keloid,
    keratitis, keratoacanthoma, keratoconus, keratosis, kernicterus, klinefelter syndrome, kwashiorkor, labyrinthitis,
    laryngitis, lead poisoning, leiomyosarcoma, leishmaniasis, leprosy, leptospirosis, leukopenia, lichen planus,
    lipoma, liposarcoma, listeriosis, loiasis, long qt syndrome, lordosis, lymphadenitis, lymphangioma, lymphangitis,
    lymphedema, marfan syndrome, mastitis, mastocytosis, mastoiditis, measles, mediastinitis, medulloblastoma,
    megacolon, melioidosis, mesothelioma, methemoglobinemia, microcephaly, mitral valve prolapse, motion sickness,
    moyamoya disease, mucormycosis, mumps, mycetoma, mycosis fungoides, myelitis, myiasis, myopia, myositis, myxedema,
    narcolepsy, nephrocalcinosis, nephrosclerosis, neuroblastoma, neurofibromatosis, neurosyphilis, neutropenia, night
    blindness, nocardiosis, onchocerciasis, onychomycosis, oophoritis, opisthorchiasis, orchitis, osteitis deformans,
    osteochondritis, osteomalacia, osteonecrosis, osteopetrosis, osteosarcoma, otitis externa, otosclerosis,
    panniculitis, paratyphoid fever, parotitis, pellagra, pemphigus, periodontitis, phenylketonuria, phimosis,
    phlebitis, pinta, pityriasis rosea, placenta previa, plague, plasmacytoma, pleurisy, pleuropneumonia,
    pneumoconiosis, poliomyelitis, polymyositis, presbyopia, proctitis, proctocolitis, prognathism, prurigo,
    psittacosis, pterygium, pyoderma, pyomyositis, q fever, rabies, rat-bite fever, relapsing fever, retinitis
    pigmentosa, retinoblastoma, rhabdomyosarcoma, rheumatic fever, rhinophyma, rhinoscleroma, rickets, rubella,
    salpingitis, scabies, scarlet fever, schistosomiasis, scleritis, scoliosis, scurvy, seminoma, sialadenitis,
    siderosis, silicosis, spina bifida, spondylitis, spondylolisthesis, sporotrichosis, stomatitis, strabismus,
    strongyloidiasis, synovitis, syringomyelia, takayasu arteritis, tennis elbow, tenosynovitis, teratoma, tetanus,
    tetany, tetralogy of fallot, thalassemia, thromboangiitis obliterans, thrombocytosis, thymoma, thyroiditis, tinea
    capitis, tinea pedis, tonsillitis, torticollis, toxoplasmosis, tracheitis, trachoma, trichinellosis, trichuriasis,
    tuberous sclerosis, tularemia, turner syndrome, typhoid fever, urethritis, uveitis, vaginismus, vaginitis,
    varicocele, vasculitis, vitiligo, whipple disease, whooping cough, williams syndrome, xanthomatosis, xerophthalmia,
    xerostomia, yaws, yellow fever
"""
FURTHER = tuple(" ".join(name.split()) for name in _FURTHER.split(","))

# Names that only a man, or only a woman, can have to do with.
_OF_MEN = """
    balanitis, benign prostatic hyperplasia, cryptorchidism, epididymitis, erectile dysfunction, gynecomastia,
    hypospadias, klinefelter syndrome, orchitis, phimosis, priapism, prostate cancer, prostatitis, seminoma, testicular
    cancer, testicular torsion, varicocele
"""
_OF_WOMEN = """
    amenorrhea, bacterial vaginosis, cervical cancer, eclampsia, ectopic pregnancy, endometrial cancer, endometriosis,
    endometritis, galactorrhea, heavy menstrual bleeding, hyperemesis gravidarum, irregular periods, mammogram,
    mastitis, oophoritis, ovarian cancer, ovarian torsion, painful intercourse, painful periods, pelvic inflammatory
    disease, placenta previa, polycystic ovary syndrome, preeclampsia, salpingitis, turner syndrome, uterine fibroids,
    vaginal discharge, vaginismus, vaginitis
"""
SEX_OF = {
    " ".join(name.split()): sex for sex, names in (("man", _OF_MEN), ("woman", _OF_WOMEN)) for name in names.split(",")
}
OF_THE_YOUNG = "obstetrics and gynaecology"  # the branch whose patients are below the age of 45

# What a report may call a concept instead of its name in the table of facts; each is a name of the same concept.
_OTHER = """
    abdominal pain: belly pain
    achalasia: cardiospasm
    acetaminophen: paracetamol
    acute bronchitis: chest cold
    acute kidney injury: acute kidney failure
    acute liver failure: acute hepatic failure
    acute myeloid leukemia: acute myelocytic leukemia
    acyclovir: aciclovir
    adrenal insufficiency: hypoadrenalism
    albuterol: salbutamol
    alzheimer's disease: senile dementia
    amyotrophic lateral sclerosis: gehrig disease
    ankylosing spondylitis: bechterew disease
    anorexia: poor appetite
    aspirin: acetylsalicylic acid
    asthma: bronchial asthma
    atrial fibrillation: auricular fibrillation
    atrial flutter: auricular flutter
    back pain: backache
    basal cell carcinoma: rodent ulcer
    benign prostatic hyperplasia: enlarged prostate
    bipolar disorder: manic depression
    bladder cancer: bladder tumor
    blood cultures: blood culture
    brain tumor: brain cancer
    breast cancer: mammary tumor, breast tumor
    cardiac arrest: heart arrest
    cardiac tamponade: pericardial tamponade
    celiac disease: celiac sprue, sprue
    central obesity: abdominal obesity
    cervical cancer: cervix cancer
    chest discomfort: chest pressure
    cholecystitis: gallbladder inflammation
    cholelithiasis: gallstone disease
    chronic kidney disease: chronic renal insufficiency
    chronic myeloid leukemia: chronic myelogenous leukemia
    concussion: brain concussion
    conjunctivitis: pink eye
    contact dermatitis: contact eczema
    ct scan: x-ray computed tomography
    cushing's syndrome: hypercortisolism
    dilated cardiomyopathy: congestive cardiomyopathy
    double vision: diplopia
    dysphagia: trouble swallowing
    dyspnea: trouble breathing
    dysuria: painful urination
    echocardiogram: echocardiography
    ectopic pregnancy: extrauterine pregnancy
    electrocardiogram: electrocardiography
    encephalitis: brain inflammation
    epinephrine: adrenaline
    epistaxis: nosebleed
    erectile dysfunction: impotence
    esophageal cancer: esophagus cancer
    fatty liver disease: fatty liver
    fever: pyrexia
    furosemide: frusemide
    gastroenteritis: stomach flu
    gastroesophageal reflux disease: acid reflux
    giant cell arteritis: horton disease
    graves' disease: basedow disease
    headache: head pain
    hearing loss: hearing impairment
    heart failure: cardiac failure
    heavy menstrual bleeding: menorrhagia
    hematemesis: vomiting blood
    hematuria: bloody urine
    hemophilia: haemophilia
    hepatic encephalopathy: hepatic coma
    hepatomegaly: enlarged liver
    herniated disc: slipped disc
    hip fracture: broken hip
    hives: urticaria
    hodgkin lymphoma: hodgkin disease
    hyperkalemia: hyperpotassemia
    hyperlipidemia: hyperlipemia
    hypertension: high blood pressure
    hyperthyroidism: overactive thyroid
    hypothyroidism: thyroid deficiency
    infectious mononucleosis: glandular fever
    influenza: grippe
    insomnia: trouble sleeping
    intracerebral hemorrhage: cerebral hemorrhage
    irritable bowel syndrome: irritable colon
    isoproterenol: isoprenaline
    jaundice: yellow skin
    joint pain: arthralgia
    kidney cancer: renal cancer
    kidney stones: kidney stone
    laryngeal cancer: larynx cancer
    levothyroxine: thyroxine
    lidocaine: lignocaine
    liver cancer: hepatic cancer
    loss of smell: anosmia
    low back pain: lumbago
    lymphadenopathy: adenopathy
    major depression: major depressive disorder
    malaria: marsh fever, paludism
    mammogram: mammography
    melanoma: malignant melanoma
    mesalamine: mesalazine
    mitral regurgitation: mitral insufficiency, mitral incompetence
    multiple myeloma: kahler disease
    muscle pain: myalgia
    muscle wasting: muscle atrophy
    myalgias: muscle pain
    myocardial infarction: heart attack
    myocarditis: myocardial inflammation
    nasal congestion: stuffy nose
    norepinephrine: noradrenaline
    orthostatic hypotension: postural hypotension
    osteomyelitis: bone infection
    otitis media: middle ear inflammation
    painful intercourse: dyspareunia
    painful periods: dysmenorrhea
    paresthesias: tingling
    peptic ulcer disease: peptic ulcer
    peripheral artery disease: peripheral arterial disease
    pharyngitis: sore throat
    photophobia: light sensitivity
    pleural empyema: pyothorax
    pneumothorax: collapsed lung
    polycystic kidney disease: polycystic renal disease
    polycythemia vera: erythremia
    pressure ulcer: bedsore, pressure sore
    prostate cancer: prostatic cancer
    pruritus: itching
    ptosis: drooping eyelid
    pyelonephritis: kidney infection
    radiation therapy: radiotherapy
    raynaud phenomenon: raynaud disease
    rifampin: rifampicin
    runny nose: rhinorrhea
    schizophrenia: dementia praecox
    scintigraphy: radionuclide imaging
    sepsis: blood infection
    shingles: zoster
    sickle cell disease: sickle cell anemia
    sinusitis: sinus infection
    sjogren's syndrome: sicca syndrome
    slurred speech: dysarthria
    small bowel obstruction: bowel obstruction
    splenomegaly: enlarged spleen
    stomach cancer: gastric cancer
    stroke: apoplexy
    subdural hematoma: subdural hemorrhage
    syncope: fainting
    tachycardia: racing heart
    testicular cancer: testicular tumor
    traumatic brain injury: brain trauma
    trigeminal neuralgia: fothergill disease
    tuberculosis: koch disease
    ultrasonography: ultrasound
    urinary tract infection: urine infection
    vitamin b12 deficiency: cobalamin deficiency
"""
OTHER_NAMES = {
    name: tuple(others.split(", "))
    for name, others in (line.strip().split(": ") for line in _OTHER.strip().splitlines())
}

# Last words of names that take an indefinite article.
_COUNTABLE = """
    abscess accident aneurysm angiogram astrocytoma attack backache bedsore biopsy carcinoma cholesteatoma cold
    concussion cough detachment diet disc dissection echocardiogram effusion electrocardiogram electroencephalogram
    embolism ependymoma examination eyelid fibrosarcoma fissure fracture gastrinoma glioblastoma goiter headache heart
    heartbeat hemangioma hematoma hemorrhage hemothorax hepatoblastoma hernia hip hordeolum infarction infection injury
    insulinoma keloid keratoacanthoma lipoma liver lung lymphangioma mammogram medulloblastoma megacolon monitor
    neuroblastoma nodule nose nosebleed obstruction osteosarcoma overdose ovale pheochromocytoma plasmacytoma
    pneumothorax pregnancy prolactinoma prostate puncture retinoblastoma rupture scan seminoma smear sore spleen stone
    stroke study tear teratoma test throat thymoma thyroid tremor tumor ulcer varicocele x-ray
"""
COUNTABLE = frozenset(_COUNTABLE.split())
UNCOUNTED = frozenset(("hiv infection", "chlamydia infection", "heat stroke", "whooping cough"))
# Words written with capitals wherever they stand.
_PROPER = """
    Alzheimer's B B12 Barrett's Basedow Bechterew Bell's C COVID-19 CT Clostridium Crohn's Cushing's D E Fabry Fallot
    Felty Fothergill G Gaucher Gehrig Graves' Guillain-Barre HIV Hirschsprung Hodgkin Horton Huntington Kahler
    Kartagener Klinefelter Koch Lyme Marfan Meniere's PET Parkinson's Q QT Raynaud Sjogren's Takayasu Turner
    Whipple Williams non-Hodgkin
"""
CAPITALS = {
    form.lower(): form for word in _PROPER.split() for form in (word, word.removesuffix("'s").removesuffix("'"))
}


def article(name: str) -> str:
    """ "a", "an" or "" before a name, by its last word and first letters."""
    name = name.lower()
    if name in UNCOUNTED or name.split()[-1] not in COUNTABLE:
        return ""
    sounds_like_you = name.startswith(("uri", "ure", "ute", "uni", "eu"))
    return "an" if name.startswith("x-ray") or (name[0] in "aeiou" and not sounds_like_you) else "a"


def with_capitals(name: str) -> str:
    """A lower-case name with the capitals of proper names and abbreviations."""
    return " ".join(CAPITALS.get(word, word) for word in name.split())
